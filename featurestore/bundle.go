package featurestore

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// Bundle is one result of a refit: what would be served, and the verdict on
// it.
type Bundle struct {
	Version   int64 // given by the store
	LLM       string
	Bytes     []byte
	SHA256    [sha256.Size]byte // of Bytes; computed by the store
	Metadata  json.RawMessage   // an object; nil is stored as {}
	Verdict   json.RawMessage   // an object; nil is stored as {}
	Accepted  bool
	MaxAge    time.Duration // how long after validation an accepted bundle is fresh
	CreatedAt time.Time     // by the database's clock
}

// channel is where the version of a bundle that becomes or stays served is
// notified.
const channel = "spillway_bundle"

const (
	insertBundle = `
		INSERT INTO bundles (llm, bytes, sha256, metadata, verdict, accepted)
		VALUES ($1, $2, $3, $4, $5, $6)
		RETURNING version`

	// Moves the pointer and keeps its new value in the history.
	moveServed = `
		WITH moved AS (
			INSERT INTO served (llm, bundle, validated_at, max_age, reason)
			VALUES ($1, $2, clock_timestamp(), $3, $4)
			ON CONFLICT (llm) DO UPDATE SET
				bundle = excluded.bundle, validated_at = excluded.validated_at,
				max_age = excluded.max_age, reason = excluded.reason
			RETURNING llm, bundle, validated_at, max_age, reason)
		INSERT INTO served_history (llm, bundle, validated_at, max_age, reason)
		SELECT llm, bundle, validated_at, max_age, reason FROM moved`

	notifyBundle = `SELECT pg_notify($1, $2)`
)

// PublishBundle stores b and, when it is accepted, serves it from now on and
// notifies its version, all in one transaction in which lease is held. A
// refused bundle is stored with its verdict and moves nothing. When the lease
// is lost nothing is stored and the error is ErrLeaseLost.
func (s *Store) PublishBundle(ctx context.Context, lease Lease, b Bundle) (version int64, err error) {
	if b.Accepted && b.MaxAge <= 0 {
		return 0, fmt.Errorf("publish a bundle of %s: max age %v of an accepted bundle must be above 0", b.LLM, b.MaxAge)
	}
	sum := sha256.Sum256(b.Bytes)
	if b.Bytes == nil {
		b.Bytes = []byte{}
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if err := lease.check(ctx, tx); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, insertBundle, b.LLM, b.Bytes, sum[:], object(b.Metadata), object(b.Verdict), b.Accepted).Scan(&version)
		if err != nil || !b.Accepted {
			return err
		}
		if _, err := tx.Exec(ctx, moveServed, b.LLM, version, b.MaxAge.Seconds(), "published"); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, notifyBundle, channel, strconv.FormatInt(version, 10))
		return err
	})
	if err != nil {
		return 0, failed("publish a bundle of "+b.LLM, err)
	}
	return version, nil
}

func object(j json.RawMessage) json.RawMessage {
	if len(j) == 0 {
		return json.RawMessage("{}")
	}
	return j
}

const selectBundle = `
	SELECT version, llm, bytes, sha256, metadata, verdict, accepted, created_at
	FROM bundles WHERE version = $1`

// Bundle returns one bundle with its bytes, or ErrNotFound.
func (s *Store) Bundle(ctx context.Context, version int64) (Bundle, error) {
	var b Bundle
	var sum []byte
	err := s.pool.QueryRow(ctx, selectBundle, version).
		Scan(&b.Version, &b.LLM, &b.Bytes, &sum, &b.Metadata, &b.Verdict, &b.Accepted, &b.CreatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return b, fmt.Errorf("bundle %d: %w", version, ErrNotFound)
	}
	if err != nil {
		return b, failed(fmt.Sprintf("read bundle %d", version), err)
	}
	copy(b.SHA256[:], sum)
	b.CreatedAt = b.CreatedAt.UTC()
	return b, nil
}

const selectBundles = `
	SELECT version, llm, sha256, metadata, verdict, accepted, created_at
	FROM bundles WHERE llm = $1 ORDER BY version DESC LIMIT $2`

// Bundles lists the newest bundles of llm, newest first, without their bytes.
func (s *Store) Bundles(ctx context.Context, llm string, limit int) ([]Bundle, error) {
	rows, err := s.pool.Query(ctx, selectBundles, llm, limit)
	if err != nil {
		return nil, failed("list the bundles of "+llm, err)
	}
	bundles, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Bundle, error) {
		var b Bundle
		var sum []byte
		err := row.Scan(&b.Version, &b.LLM, &sum, &b.Metadata, &b.Verdict, &b.Accepted, &b.CreatedAt)
		copy(b.SHA256[:], sum)
		b.CreatedAt = b.CreatedAt.UTC()
		return b, err
	})
	if err != nil {
		return nil, failed("list the bundles of "+llm, err)
	}
	return bundles, nil
}
