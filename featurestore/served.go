package featurestore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// Pointer says which bundle an LLM is served with.
type Pointer struct {
	LLM         string            `json:"llm"`
	Version     int64             `json:"version"`
	SHA256      [sha256.Size]byte `json:"-"` // of the bundle's bytes
	ValidatedAt time.Time         `json:"validated_at"`
	MaxAge      time.Duration     `json:"max_age"` // the bundle is stale when ValidatedAt is longer ago
	Reason      string            `json:"reason"`  // of the last change: published, rollback, released, or as Revalidate was told
	Pinned      bool              `json:"pinned"`  // by Rollback: a refit does not move it; always false in a history
}

// Served is a pointer with the bundle it points to. The receiver checks the
// checksum: the store hands out what it holds.
type Served struct {
	Pointer
	Bytes []byte
}

// $2 is MaxBundleBytes: bytes above it stay in the database.
const selectServed = `
	SELECT s.llm, s.bundle, s.validated_at, s.max_age, s.reason, s.pinned, b.sha256,
	       octet_length(b.bytes), CASE WHEN octet_length(b.bytes) <= $2 THEN b.bytes END
	FROM served s JOIN bundles b ON b.version = s.bundle
	WHERE s.llm = $1`

// Served returns what llm is served with, or ErrNotServed.
func (s *Store) Served(ctx context.Context, llm string) (Served, error) {
	var v Served
	var maxAge float64
	var sum []byte
	var size int64
	err := s.pool.QueryRow(ctx, selectServed, llm, MaxBundleBytes).
		Scan(&v.LLM, &v.Version, &v.ValidatedAt, &maxAge, &v.Reason, &v.Pinned, &sum, &size, &v.Bytes)
	if err == nil {
		err = tooLarge(size)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return v, fmt.Errorf("a bundle of %q: %w", llm, ErrNotServed)
	}
	if err != nil {
		return v, failed("read the served bundle of "+llm, err)
	}
	copy(v.SHA256[:], sum)
	v.ValidatedAt, v.MaxAge = v.ValidatedAt.UTC(), seconds(maxAge)
	return v, nil
}

const selectPointers = `
	SELECT s.llm, s.bundle, b.sha256, s.validated_at, s.max_age, s.reason, s.pinned
	FROM served s JOIN bundles b ON b.version = s.bundle
	WHERE $1::text IS NULL OR s.llm = $1 ORDER BY s.llm`

// ServedPointer is Served without the bytes, cheap enough to poll.
func (s *Store) ServedPointer(ctx context.Context, llm string) (Pointer, error) {
	pointers, err := s.pointers(ctx, &llm)
	if err != nil {
		return Pointer{}, err
	}
	if len(pointers) == 0 {
		return Pointer{}, fmt.Errorf("a bundle of %q: %w", llm, ErrNotServed)
	}
	return pointers[0], nil
}

// ServedLLMs lists what every LLM is served with, ordered by LLM.
func (s *Store) ServedLLMs(ctx context.Context) ([]Pointer, error) {
	return s.pointers(ctx, nil)
}

func (s *Store) pointers(ctx context.Context, llm *string) ([]Pointer, error) {
	rows, err := s.pool.Query(ctx, selectPointers, llm)
	if err != nil {
		return nil, failed("read the served bundles", err)
	}
	pointers, err := pgx.CollectRows(rows, scanPointer)
	if err != nil {
		return nil, failed("read the served bundles", err)
	}
	return pointers, nil
}

func scanPointer(row pgx.CollectableRow) (Pointer, error) {
	var p Pointer
	var maxAge float64
	var sum []byte
	err := row.Scan(&p.LLM, &p.Version, &sum, &p.ValidatedAt, &maxAge, &p.Reason, &p.Pinned)
	copy(p.SHA256[:], sum)
	p.ValidatedAt, p.MaxAge = p.ValidatedAt.UTC(), seconds(maxAge)
	return p, err
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Never moves validated_at back.
const revalidate = `
	WITH renewed AS (
		UPDATE served SET validated_at = greatest(validated_at, $3), reason = $4
		WHERE llm = $1 AND bundle = $2
		RETURNING llm, bundle, validated_at, max_age, reason)
	INSERT INTO served_history (llm, bundle, validated_at, max_age, reason)
	SELECT llm, bundle, validated_at, max_age, reason FROM renewed`

// Revalidate says that version, which llm is served with, was found good at
// the given time, and notifies it. It returns ErrLeaseLost when lease is not
// held and ErrNotServed when another version is served.
func (s *Store) Revalidate(ctx context.Context, lease Lease, llm string, version int64, at time.Time, reason string) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if err := lease.check(ctx, tx); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, revalidate, llm, version, at, reason)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return ErrNotServed
		}
		_, err = tx.Exec(ctx, notifyBundle, channel, strconv.FormatInt(version, 10))
		return err
	})
	if err != nil {
		return failed(fmt.Sprintf("revalidate bundle %d of %s", version, llm), err)
	}
	return nil
}

const selectRollback = `
	SELECT s.bundle, s.max_age, b.emptied_at IS NOT NULL
	FROM bundles b JOIN served s ON s.llm = b.llm
	WHERE b.version = $2 AND b.llm = $1 AND b.accepted
	FOR UPDATE OF s`

// Rollback serves llm with an earlier accepted bundle again, as of now, and
// notifies it. It pins the pointer: refits are stored with their verdicts and
// renew the validation, but move it only after Release. It asks for no lease:
// it is a person's decision. It returns ErrNotFound when llm has no accepted
// bundle of that version, or Maintain has dropped its bytes.
func (s *Store) Rollback(ctx context.Context, llm string, version int64) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		_, maxAge, err := rollbackTo(ctx, tx, llm, version)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, moveServed, llm, version, maxAge, "rollback", true); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, notifyBundle, channel, strconv.FormatInt(version, 10))
		return err
	})
	if err != nil {
		return failed(fmt.Sprintf("roll %s back to bundle %d", llm, version), err)
	}
	return nil
}

// CheckRollback returns the error that Rollback would, or the version that llm
// is served with now. It changes nothing.
func (s *Store) CheckRollback(ctx context.Context, llm string, version int64) (now int64, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		now, _, err = rollbackTo(ctx, tx, llm, version)
		return err
	})
	if err != nil {
		return 0, failed(fmt.Sprintf("roll %s back to bundle %d", llm, version), err)
	}
	return now, nil
}

// rollbackTo finds out whether llm can be served with a version, and what it is
// served with; the pointer is locked until the transaction ends.
func rollbackTo(ctx context.Context, tx pgx.Tx, llm string, version int64) (now int64, maxAge float64, err error) {
	var emptied bool
	err = tx.QueryRow(ctx, selectRollback, llm, version).Scan(&now, &maxAge, &emptied)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = fmt.Errorf("an accepted bundle of that version: %w", ErrNotFound)
	case err == nil && emptied:
		err = fmt.Errorf("its bytes, which outlived their retention: %w", ErrNotFound)
	}
	return now, maxAge, err
}

const release = `
	WITH released AS (
		UPDATE served SET pinned = false, reason = 'released'
		WHERE llm = $1 AND pinned
		RETURNING llm, bundle, validated_at, max_age, reason)
	INSERT INTO served_history (llm, bundle, validated_at, max_age, reason)
	SELECT llm, bundle, validated_at, max_age, reason FROM released`

// Release ends what Rollback pinned: the next accepted bundle of llm is served
// again. It returns ErrNotPinned when nothing was.
func (s *Store) Release(ctx context.Context, llm string) error {
	tag, err := s.pool.Exec(ctx, release, llm)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrNotPinned
	}
	if err != nil {
		return failed("release what "+llm+" is served with", err)
	}
	return nil
}

const selectHistory = `
	SELECT h.llm, h.bundle, b.sha256, h.validated_at, h.max_age, h.reason, false
	FROM served_history h JOIN bundles b ON b.version = h.bundle
	WHERE h.llm = $1 ORDER BY h.id DESC LIMIT $2`

// ServedHistory lists the last values of llm's pointer, newest first.
func (s *Store) ServedHistory(ctx context.Context, llm string, limit int) ([]Pointer, error) {
	rows, err := s.pool.Query(ctx, selectHistory, llm, limit)
	if err != nil {
		return nil, failed("read what was served to "+llm, err)
	}
	pointers, err := pgx.CollectRows(rows, scanPointer)
	if err != nil {
		return nil, failed("read what was served to "+llm, err)
	}
	return pointers, nil
}
