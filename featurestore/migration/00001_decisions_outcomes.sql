-- +goose Up

-- One row a routing decision. Partitioned by UTC day of decided_at; the days
-- are made ahead of time and dropped by retention. A row of a day without a
-- partition goes to decisions_default, so a write never fails for its date.
--
-- Scalars: NULL is unknown (NaN in Go). Inside arrays an unknown number is the
-- float NaN, so that an array round-trips bit for bit.
CREATE TABLE decisions (
    decided_at             timestamptz      NOT NULL,
    id                     uuid             NOT NULL,
    llm                    text             NOT NULL,
    router                 text             NOT NULL,
    mode                   text             NOT NULL,
    policy                 text             NOT NULL,
    policy_version         integer          NOT NULL,
    bundle                 bigint           NOT NULL, -- 0: no bundle's forecast was used
    schema                 bytea            NOT NULL, -- fingerprint of the vectors, 8 bytes
    state                  text             NOT NULL,
    reason                 text             NOT NULL,
    prompt_tokens          double precision,
    expected_output_tokens double precision,
    slo_ttft               double precision, -- seconds
    slo_tpot               double precision, -- seconds
    priority               integer          NOT NULL,
    chosen                 text,             -- NULL when shed
    chosen_class           text,
    chosen_vector          real[],           -- what the trainer reads
    chosen_forecast        double precision[], -- layout as one candidate of forecasts
    chosen_corrected       double precision[],
    propensity             double precision,
    explored               boolean          NOT NULL,
    complete               boolean          NOT NULL, -- every candidate is here
    ids                    text[]           NOT NULL, -- candidate endpoints, ordered
    classes                text[]           NOT NULL,
    vectors                real[]           NOT NULL, -- candidate after candidate
    -- 9 numbers a candidate: ttft p50, p90, tpot p50, p90 (seconds),
    -- log-residual ttft p50, p90, tpot p50, p90, support
    forecasts              double precision[] NOT NULL,
    corrected              double precision[] NOT NULL,
    costs                  double precision[] NOT NULL,
    probabilities          double precision[] NOT NULL,
    states                 bytea,
    rest                   integer          NOT NULL, -- candidates left out
    rest_cost_min          double precision,
    rest_cost_max          double precision,
    epoch                  bigint           NOT NULL, -- the bits of a uint64
    seed                   bigint           NOT NULL, -- the bits of a uint64
    PRIMARY KEY (decided_at, id)
) PARTITION BY RANGE (decided_at);

-- A window of one LLM, and the list of LLMs by skipping from one to the next.
CREATE INDEX decisions_llm ON decisions (llm, decided_at);

-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        ALTER TABLE decisions
            ALTER COLUMN ids           SET COMPRESSION lz4,
            ALTER COLUMN classes       SET COMPRESSION lz4,
            ALTER COLUMN vectors       SET COMPRESSION lz4,
            ALTER COLUMN forecasts     SET COMPRESSION lz4,
            ALTER COLUMN corrected     SET COMPRESSION lz4,
            ALTER COLUMN costs         SET COMPRESSION lz4,
            ALTER COLUMN probabilities SET COMPRESSION lz4,
            ALTER COLUMN states        SET COMPRESSION lz4;
    END IF;
END
$$;
-- +goose StatementEnd

CREATE TABLE decisions_default PARTITION OF decisions DEFAULT;

-- One row an attempt of a request. Carries decided_at of its decision so that
-- both rows live in the same day. No foreign key: either may arrive first.
CREATE TABLE outcomes (
    decided_at    timestamptz NOT NULL,
    decision      uuid        NOT NULL,
    attempt       integer     NOT NULL,
    status        text        NOT NULL,
    http_status   integer,
    ttft          double precision, -- seconds
    tpot          double precision, -- seconds
    e2e           double precision, -- seconds
    output_tokens double precision,
    cached_tokens double precision,
    endpoint      text,
    censored_at   double precision, -- seconds
    finished_at   timestamptz,
    PRIMARY KEY (decided_at, decision, attempt)
) PARTITION BY RANGE (decided_at);

CREATE TABLE outcomes_default PARTITION OF outcomes DEFAULT;
