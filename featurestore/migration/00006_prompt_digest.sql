-- +goose Up

-- What tells how much two prompts have in common, and nothing of their text;
-- NULL where the router knew nothing of the prompt, or was an older one.
ALTER TABLE decisions ADD COLUMN prompt_digest bytea;
