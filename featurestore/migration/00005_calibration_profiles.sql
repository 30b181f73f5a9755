-- +goose Up

-- The whole profile that the coefficients are part of.
ALTER TABLE calibrations ADD COLUMN profile jsonb NOT NULL DEFAULT '{}';
