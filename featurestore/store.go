package featurestore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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

// connectTimeout bounds one attempt to connect, where the URL sets none.
const connectTimeout = 5 * time.Second

// Options of a Store. The zero value is usable.
type Options struct {
	// Logger hears of what the store does by itself; nil is silent.
	Logger *slog.Logger
	// MaxConns bounds the connections; 0 is pgx's default, the larger of 4
	// and the number of CPUs.
	MaxConns int32
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
	if strings.TrimSpace(url) == "" {
		return nil, errors.New("DATABASE_URL is empty: set it to a Postgres URL such as postgres://user@host:5432/spillway")
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL is not a Postgres URL such as postgres://user@host:5432/spillway: %s", oneLine(err))
	}
	// Describes a statement once a connection and leaves nothing prepared on
	// the server, which a pooler in transaction mode would lose.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	config.AfterConnect = registerFloatArrays
	if o.MaxConns > 0 {
		config.MaxConns = o.MaxConns
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
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Store{pool: pool, log: log}, nil
}

// Close ends all connections, waiting for those in use.
func (s *Store) Close() { s.pool.Close() }

// connectError says in one sentence what about DATABASE_URL did not work.
func connectError(c *pgx.ConnConfig, err error) error {
	server := fmt.Sprintf("%s:%d", c.Host, c.Port)
	if strings.HasPrefix(c.Host, "/") {
		server = c.Host
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		switch {
		case refused.Code == "3D000":
			return fmt.Errorf("DATABASE_URL names the database %q, which does not exist on %s", c.Database, server)
		case strings.HasPrefix(refused.Code, "28"):
			return fmt.Errorf("DATABASE_URL names the user %q, whom %s refused: %s", c.User, server, refused.Message)
		}
	}
	return fmt.Errorf("no database answers at %s, where DATABASE_URL points: %s", server, oneLine(err))
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

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

const takeLock = `SELECT pg_advisory_xact_lock($1)`

// Migrate brings the schema to the version of this binary. Several processes
// may migrate at once: one works, the others wait and find nothing to do.
func (s *Store) Migrate(ctx context.Context) error {
	// The lock lives in a transaction of a connection of its own while goose
	// works on the pool's, so a pooler in transaction mode keeps it where it
	// is, and a pool of one connection does not wait for itself.
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return connectError(s.pool.Config().ConnConfig, err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, takeLock, lockKey); err != nil {
			return failed("lock the schema", err)
		}
		provider, done, err := s.migrations()
		if err != nil {
			return err
		}
		defer done()
		results, err := provider.Up(ctx)
		for _, r := range results {
			s.log.Info("schema migrated", "migration", r.Source.Path, "seconds", r.Duration.Seconds())
		}
		if err != nil {
			return fmt.Errorf("migrate the database schema: %w", err)
		}
		return nil
	})
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
