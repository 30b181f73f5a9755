package featurestore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// connectTimeout bounds one attempt to connect, where the URL sets none.
	connectTimeout = 5 * time.Second

	// application is what the database's own views call our sessions, where
	// neither the URL nor PGAPPNAME says otherwise.
	application = "spillway"

	// idleInTransaction is how long the server lets a transaction of ours wait for
	// us, which none does: one that does holds its locks for nobody.
	idleInTransaction = time.Minute
)

// poolConfig reads a URL. What it does not set is set here.
func poolConfig(url string, o Options, log *slog.Logger) (*pgxpool.Config, error) {
	if strings.TrimSpace(url) == "" {
		return nil, errors.New("DATABASE_URL is empty: set it to a Postgres URL such as postgres://user@host:5432/spillway")
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL is not a Postgres URL such as postgres://user@host:5432/spillway: %s", oneLine(err))
	}
	conn := config.ConnConfig
	// Describes a statement once a connection and leaves nothing prepared on
	// the server, which a pooler in transaction mode would lose.
	if conn.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		conn.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = connectTimeout
	}
	setUnlessSet(conn.RuntimeParams, "application_name", application)
	config.AfterConnect = registerFloatArrays
	if o.MaxConns > 0 && !strings.Contains(url, "pool_max_conns") {
		config.MaxConns = o.MaxConns
	}
	if o.StatementTimeout > 0 {
		config.BeforeConnect = (&limits{statement: o.StatementTimeout, log: log}).set
	}
	return config, nil
}

func setUnlessSet(params map[string]string, name, value string) {
	if _, set := params[name]; !set {
		params[name] = value
	}
}

// limits are what the server is asked to hold a session of ours to, in the first
// message of a connection: nothing else would outlive a transaction behind a pooler
// in transaction mode. Such poolers refuse what they would lose, PgBouncer for one;
// connections through one that does go without.
type limits struct {
	statement time.Duration
	log       *slog.Logger

	mu      sync.Mutex
	known   bool
	refused bool
}

// set is called before each connection, the first of which is tried before.
func (l *limits) set(ctx context.Context, c *pgx.ConnConfig) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	without := maps.Clone(c.RuntimeParams)
	limit(c.RuntimeParams, "statement_timeout", l.statement)
	limit(c.RuntimeParams, "idle_in_transaction_session_timeout", idleInTransaction)
	if !l.known {
		err := try(ctx, c)
		if err != nil && mayRefuseSetting(err) {
			c.RuntimeParams = without
			if err := try(ctx, c); err != nil {
				return err // so it was for something else
			}
			l.refused = true
			l.log.Info("the pooler at DATABASE_URL takes no statement_timeout: set it for the role", "error", oneLine(err))
		} else if err != nil {
			return err
		}
		l.known = true
	}
	if l.refused {
		c.RuntimeParams = without
	}
	return nil
}

// limit sets a time that neither the URL nor its options set.
func limit(params map[string]string, name string, d time.Duration) {
	if !strings.Contains(params["options"], name) {
		setUnlessSet(params, name, strconv.FormatInt(d.Milliseconds(), 10))
	}
}

// try connects once, for what comes of it.
func try(ctx context.Context, c *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, c)
	if err == nil {
		_ = conn.Close(ctx)
	}
	return err
}

// mayRefuseSetting reports whether a pooler may have refused a connection for a
// setting in its first message: SQLSTATE 08P01 (protocol_violation), which a Postgres
// gives no well-formed first message. PgBouncer has it for much else, such as a
// database that it does not know.
func mayRefuseSetting(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "08P01"
}

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
