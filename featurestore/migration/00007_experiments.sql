-- +goose Up

-- The design of the experiment that a decision is part of, as text, and which arm
-- made it; empty outside of any.
ALTER TABLE decisions ADD COLUMN experiment text NOT NULL DEFAULT '';
ALTER TABLE decisions ADD COLUMN arm text NOT NULL DEFAULT '';
