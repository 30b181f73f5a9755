-- +goose Up

-- Every bundle a refit ended with, accepted or refused. Never updated.
CREATE TABLE bundles (
    version    bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    llm        text        NOT NULL,
    bytes      bytea       NOT NULL,
    sha256     bytea       NOT NULL,
    metadata   jsonb       NOT NULL,
    verdict    jsonb       NOT NULL,
    accepted   boolean     NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX bundles_llm ON bundles (llm, version);

-- Which bundle each LLM is served with.
CREATE TABLE served (
    llm          text             PRIMARY KEY,
    bundle       bigint           NOT NULL REFERENCES bundles,
    validated_at timestamptz      NOT NULL,
    max_age      double precision NOT NULL, -- seconds after which validated_at is stale
    reason       text             NOT NULL
);

-- Every value a row of served has had.
CREATE TABLE served_history (
    id           bigint           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    llm          text             NOT NULL,
    bundle       bigint           NOT NULL REFERENCES bundles,
    validated_at timestamptz      NOT NULL,
    max_age      double precision NOT NULL,
    reason       text             NOT NULL,
    changed_at   timestamptz      NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX served_history_llm ON served_history (llm, id);

-- Who may refit. A lease is held by (owner, generation) until expires_at by
-- the clock of this database; generation grows with every acquisition, so an
-- earlier holder of the same name is told apart.
CREATE TABLE leases (
    name       text        PRIMARY KEY,
    owner      text        NOT NULL,
    generation bigint      NOT NULL,
    expires_at timestamptz NOT NULL
);
