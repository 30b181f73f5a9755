-- +goose Up

-- Coefficients of the analytic prior, as measured or fitted.
CREATE TABLE calibrations (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    llm          text        NOT NULL,
    class        text        NOT NULL,
    source       text        NOT NULL, -- how they were found
    coefficients jsonb       NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX calibrations_llm ON calibrations (llm, class, id);

-- One row an incarnation of an endpoint.
CREATE TABLE endpoints (
    id          text        NOT NULL,
    incarnation text        NOT NULL,
    llm         text        NOT NULL,
    class       text        NOT NULL,
    profile     jsonb       NOT NULL,
    first_seen  timestamptz NOT NULL,
    last_seen   timestamptz NOT NULL,
    PRIMARY KEY (id, incarnation)
);
