package featurestore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/spillway-llm/spillway/featurestore/migration"
)

// Errors a caller may ask for.
var (
	// ErrNotFound means that no row has the asked-for name, id or version.
	ErrNotFound = errors.New("not found in the store")
	// ErrNotServed means that an LLM has no served bundle, or not the given one.
	ErrNotServed = errors.New("not the served bundle")
	// ErrNotPinned means that an LLM's pointer was not pinned by a rollback.
	ErrNotPinned = errors.New("not pinned by a rollback")
	// ErrLeaseLost means that a lease has expired or has another holder now.
	ErrLeaseLost = errors.New("lease lost")
)

// Options of a Store. The zero value is usable.
type Options struct {
	// Logger hears of what the store does by itself; nil is silent.
	Logger *slog.Logger
	// MaxConns bounds the connections where the URL has no pool_max_conns; 0 is
	// pgx's default, the larger of 4 and the number of CPUs.
	MaxConns int32
	// StatementTimeout is how long the server lets a statement run where the URL has
	// no statement_timeout; 0 is the server's own. Behind a pooler that takes no such
	// setting it is the role's.
	StatementTimeout time.Duration
	// Lazy makes Open succeed without a reachable database. Every method then
	// fails until it is reachable, and works from then on.
	Lazy bool
}

// Store is a pool of connections to the database. It is safe for concurrent
// use.
type Store struct {
	pool  *pgxpool.Pool
	log   *slog.Logger
	swept swept
}

// Open connects to the database at url, which users give as DATABASE_URL: its
// errors are one sentence that names it. It does not migrate.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	config, err := poolConfig(url, o, log)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open the database pool: %w", err)
	}
	if !o.Lazy {
		if err := pool.Ping(ctx); err != nil {
			pool.Close()
			return nil, connectError(config.ConnConfig, err)
		}
	}
	return &Store{pool: pool, log: log}, nil
}

// Close ends all connections, waiting for those in use.
func (s *Store) Close() { s.pool.Close() }

// failed gives err the context of what was being done, and names the cure
// when the schema is missing or older than this binary.
func failed(doing string, err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == "42P01" || refused.Code == "42703") {
		return fmt.Errorf("%s: the database schema is missing or old, run 'spillway store migrate': %w", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// lockKey is the advisory lock, held within transactions only, under which
// the schema and its partitions change.
const lockKey = 0x5350494c // "SPIL"

const (
	takeLock = `SELECT pg_advisory_xact_lock($1)`
	tryLock  = `SELECT pg_try_advisory_xact_lock($1)`

	waitForMigrations = `SET LOCAL idle_in_transaction_session_timeout = 0`

	migrateAgain = 200 * time.Millisecond // until the lock is looked at again
)

// Migrate brings the schema to the version of this binary. Several processes
// may migrate at once: one works, the others wait and find nothing to do. It takes
// one connection beside the pool's.
func (s *Store) Migrate(ctx context.Context) error {
	// The lock lives in a transaction of a connection of its own while goose
	// works on the pool's, so a pooler in transaction mode keeps it where it
	// is, and a pool of one connection does not wait for itself. Who waits does
	// so without a transaction: it would keep a session of the pooler's from the
	// one who works.
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return connectError(s.pool.Config().ConnConfig, err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for {
		version, latest, err := s.Version(ctx)
		if err != nil || version == latest {
			return err
		}
		var locked bool
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if err := tx.QueryRow(ctx, tryLock, lockKey).Scan(&locked); err != nil || !locked {
				return err
			}
			if _, err := tx.Exec(ctx, waitForMigrations); err != nil {
				return err
			}
			return s.migrate(ctx)
		})
		if err != nil {
			return fmt.Errorf("migrate the database schema: %w", err)
		}
		if locked {
			return nil
		}
		select {
		case <-time.After(migrateAgain):
		case <-ctx.Done():
			return fmt.Errorf("migrate the database schema: %w", ctx.Err())
		}
	}
}

// migrate does what Migrate does, under its lock.
func (s *Store) migrate(ctx context.Context) error {
	provider, done, err := s.migrations()
	if err != nil {
		return err
	}
	defer done()
	results, err := provider.Up(ctx)
	for _, r := range results {
		s.log.Info("schema migrated", "migration", r.Source.Path, "seconds", r.Duration.Seconds())
	}
	return err
}

// migrations opens goose on the pool. done must be called in the end.
func (s *Store) migrations() (provider *goose.Provider, done func(), err error) {
	db := stdlib.OpenDBFromPool(s.pool)
	provider, err = goose.NewProvider(goose.DialectPostgres, db, migration.Files,
		goose.WithDisableGlobalRegistry(true), goose.WithSlog(slog.New(slog.DiscardHandler)))
	if err != nil {
		_ = db.Close()
		return nil, nil, fmt.Errorf("read the migrations: %w", err)
	}
	return provider, func() { _ = db.Close() }, nil
}
