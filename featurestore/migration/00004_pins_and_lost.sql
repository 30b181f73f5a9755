-- +goose Up

-- A pinned pointer is moved by people only, not by a refit.
ALTER TABLE served ADD COLUMN pinned boolean NOT NULL DEFAULT false;

-- When retention took a bundle's bytes; bytes is empty from then on, the
-- checksum and the verdict stay.
ALTER TABLE bundles ADD COLUMN emptied_at timestamptz;

-- Until when a bundle was served.
CREATE INDEX served_history_bundle ON served_history (bundle, changed_at);

-- The few outcomes that a late real one removes.
CREATE INDEX outcomes_lost ON outcomes (decided_at, decision) WHERE status = 'lost';
