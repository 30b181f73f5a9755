package featurestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Lease is the right to do something alone until it expires. All its times are
// by the database's clock, so holders need no common clock.
type Lease struct {
	Name       string
	Owner      string
	Generation int64     // grows with every acquisition of Name, also by the same owner
	ExpiresAt  time.Time // by the database's clock
}

const acquireLease = `
	INSERT INTO leases AS held (name, owner, generation, expires_at)
	VALUES ($1, $2, 1, clock_timestamp() + make_interval(secs => $3::float8))
	ON CONFLICT (name) DO UPDATE SET
		owner = excluded.owner, generation = held.generation + 1, expires_at = excluded.expires_at
	WHERE held.expires_at <= clock_timestamp() OR held.owner = excluded.owner
	RETURNING generation, expires_at`

// AcquireLease takes the lease name for ttl, unless another owner holds it:
// then it returns false. The same owner may take it again, which ends its
// earlier lease: a process that starts anew need not wait for its former self.
func (s *Store) AcquireLease(ctx context.Context, name, owner string, ttl time.Duration) (Lease, bool, error) {
	l := Lease{Name: name, Owner: owner}
	err := s.pool.QueryRow(ctx, acquireLease, name, owner, ttl.Seconds()).Scan(&l.Generation, &l.ExpiresAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return Lease{}, false, nil
	}
	if err != nil {
		return Lease{}, false, failed("acquire lease "+name, err)
	}
	l.ExpiresAt = l.ExpiresAt.UTC()
	return l, true, nil
}

const renewLease = `
	UPDATE leases SET expires_at = clock_timestamp() + make_interval(secs => $4::float8)
	WHERE name = $1 AND owner = $2 AND generation = $3 AND expires_at > clock_timestamp()
	RETURNING expires_at`

// RenewLease extends l to ttl from now. It returns ErrLeaseLost when l has
// expired, even if nobody took it since.
func (s *Store) RenewLease(ctx context.Context, l Lease, ttl time.Duration) (Lease, error) {
	err := s.pool.QueryRow(ctx, renewLease, l.Name, l.Owner, l.Generation, ttl.Seconds()).Scan(&l.ExpiresAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return Lease{}, lost(l)
	}
	if err != nil {
		return Lease{}, failed("renew lease "+l.Name, err)
	}
	l.ExpiresAt = l.ExpiresAt.UTC()
	return l, nil
}

const releaseLease = `
	UPDATE leases SET expires_at = clock_timestamp()
	WHERE name = $1 AND owner = $2 AND generation = $3 AND expires_at > clock_timestamp()`

// ReleaseLease ends l. One that is already lost is no error.
func (s *Store) ReleaseLease(ctx context.Context, l Lease) error {
	if _, err := s.pool.Exec(ctx, releaseLease, l.Name, l.Owner, l.Generation); err != nil {
		return failed("release lease "+l.Name, err)
	}
	return nil
}

// Holding the row keeps the lease from being taken until the transaction ends.
const checkLease = `
	SELECT true FROM leases
	WHERE name = $1 AND owner = $2 AND generation = $3 AND expires_at > clock_timestamp()
	FOR UPDATE`

// check returns ErrLeaseLost unless l is held, and keeps it held until tx ends.
func (l Lease) check(ctx context.Context, tx pgx.Tx) error {
	var held bool
	err := tx.QueryRow(ctx, checkLease, l.Name, l.Owner, l.Generation).Scan(&held)
	if errors.Is(err, pgx.ErrNoRows) {
		return lost(l)
	}
	return err
}

func lost(l Lease) error {
	return fmt.Errorf("lease %q of %q (generation %d): %w", l.Name, l.Owner, l.Generation, ErrLeaseLost)
}
