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
	"github.com/jackc/pgx/v5/pgtype"
)

// Bundle is one result of a refit: what would be served, and the verdict on
// it.
type Bundle struct {
	Version   int64 // given by the store
	LLM       string
	Bytes     []byte            // empty once EmptiedAt is set
	SHA256    [sha256.Size]byte // of Bytes as they were published; computed by the store
	Metadata  json.RawMessage   // an object; nil is stored as {}
	Verdict   json.RawMessage   // an object; nil is stored as {}
	Accepted  bool
	MaxAge    time.Duration // how long after validation an accepted bundle is fresh
	CreatedAt time.Time     // by the database's clock
	EmptiedAt time.Time     // when Maintain dropped Bytes; zero while they are there
}

// MaxBundleBytes bounds a bundle's bytes: that of package bundle. A larger one
// is not stored, nor read where something else has stored it.
const MaxBundleBytes = 64 << 20

// tooLarge is the error of a bundle of so many bytes, nil of one that may be.
func tooLarge(bytes int64) error {
	if bytes > MaxBundleBytes {
		return fmt.Errorf("%d bytes, and no bundle may have more than %d", bytes, MaxBundleBytes)
	}
	return nil
}

// channel is where the version of a bundle that becomes or stays served is
// notified.
const channel = "spillway_bundle"

const (
	insertBundle = `
		INSERT INTO bundles (llm, bytes, sha256, metadata, verdict, accepted)
		VALUES ($1, $2, $3, $4, $5, $6)
		RETURNING version`

	// Moves the pointer and keeps its new value in the history. Without $5, a
	// person's word, a pinned pointer stays and no row comes back.
	moveServed = `
		WITH moved AS (
			INSERT INTO served (llm, bundle, validated_at, max_age, reason, pinned)
			VALUES ($1, $2, clock_timestamp(), $3, $4, $5)
			ON CONFLICT (llm) DO UPDATE SET
				bundle = excluded.bundle, validated_at = excluded.validated_at,
				max_age = excluded.max_age, reason = excluded.reason, pinned = excluded.pinned
			WHERE $5 OR NOT served.pinned
			RETURNING llm, bundle, validated_at, max_age, reason)
		INSERT INTO served_history (llm, bundle, validated_at, max_age, reason)
		SELECT llm, bundle, validated_at, max_age, reason FROM moved`

	notifyBundle = `SELECT pg_notify($1, $2)`
)

// PublishBundle stores b and, when it is accepted, serves it from now on and
// notifies its version, all in one transaction in which lease is held. A
// refused bundle is stored with its verdict and moves nothing, nor does an
// accepted one while the pointer is pinned by Rollback: then served is false.
// When the lease is lost nothing is stored and the error is ErrLeaseLost.
func (s *Store) PublishBundle(ctx context.Context, lease Lease, b Bundle) (version int64, served bool, err error) {
	if b.Accepted && b.MaxAge <= 0 {
		return 0, false, fmt.Errorf("publish a bundle of %s: max age %v of an accepted bundle must be above 0", b.LLM, b.MaxAge)
	}
	if err := tooLarge(int64(len(b.Bytes))); err != nil {
		return 0, false, fmt.Errorf("publish a bundle of %s: %w", b.LLM, err)
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
		moved, err := tx.Exec(ctx, moveServed, b.LLM, version, b.MaxAge.Seconds(), "published", false)
		if err != nil {
			return err
		}
		if served = moved.RowsAffected() > 0; !served {
			return nil
		}
		_, err = tx.Exec(ctx, notifyBundle, channel, strconv.FormatInt(version, 10))
		return err
	})
	if err != nil {
		return 0, false, failed("publish a bundle of "+b.LLM, err)
	}
	return version, served, nil
}

func object(j json.RawMessage) json.RawMessage {
	if len(j) == 0 {
		return json.RawMessage("{}")
	}
	return j
}

// $2 is MaxBundleBytes: bytes above it stay in the database.
const selectBundle = `
	SELECT version, llm, sha256, metadata, verdict, accepted, created_at, emptied_at,
	       octet_length(bytes), CASE WHEN octet_length(bytes) <= $2 THEN bytes END
	FROM bundles WHERE version = $1`

// Bundle returns one bundle with its bytes, or ErrNotFound.
func (s *Store) Bundle(ctx context.Context, version int64) (Bundle, error) {
	doing := fmt.Sprintf("read bundle %d", version)
	rows, err := s.pool.Query(ctx, selectBundle, version, MaxBundleBytes)
	if err != nil {
		return Bundle{}, failed(doing, err)
	}
	b, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (Bundle, error) {
		var size int64
		var bytes []byte
		b, err := scanBundle(row, &size, &bytes)
		b.Bytes = bytes
		return b, errors.Join(err, tooLarge(size))
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Bundle{}, fmt.Errorf("bundle %d: %w", version, ErrNotFound)
	}
	if err != nil {
		return Bundle{}, failed(doing, err)
	}
	return b, nil
}

const selectBundles = `
	SELECT version, llm, sha256, metadata, verdict, accepted, created_at, emptied_at
	FROM bundles WHERE $1 = '' OR llm = $1 ORDER BY version DESC LIMIT $2`

// Bundles lists the newest bundles of llm, of every LLM when that is empty,
// newest first, without their bytes.
func (s *Store) Bundles(ctx context.Context, llm string, limit int) ([]Bundle, error) {
	rows, err := s.pool.Query(ctx, selectBundles, llm, limit)
	if err != nil {
		return nil, failed("list the bundles of "+llm, err)
	}
	bundles, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Bundle, error) { return scanBundle(row) })
	if err != nil {
		return nil, failed("list the bundles of "+llm, err)
	}
	return bundles, nil
}

// scanBundle reads the columns that both queries begin with, and then more.
func scanBundle(row pgx.CollectableRow, more ...any) (Bundle, error) {
	var b Bundle
	var sum []byte
	var emptied pgtype.Timestamptz
	err := row.Scan(append([]any{&b.Version, &b.LLM, &sum, &b.Metadata, &b.Verdict, &b.Accepted, &b.CreatedAt, &emptied}, more...)...)
	copy(b.SHA256[:], sum)
	b.CreatedAt, b.EmptiedAt = b.CreatedAt.UTC(), timeOf(emptied)
	return b, err
}
