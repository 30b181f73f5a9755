package featurestoretest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/pglocal"
)

const template = "migrated"

// shared is the cluster of this test process.
var shared struct {
	main    atomic.Bool // Main runs, so the cluster will be taken down
	once    sync.Once
	err     error
	dir     string
	cluster *pglocal.Cluster
	number  atomic.Int64
}

// Main runs the tests of a package that uses New or URL. Call it as
//
//	func TestMain(m *testing.M) { featurestoretest.Main(m) }
func Main(m *testing.M) {
	shared.main.Store(true)
	code := m.Run()
	if shared.cluster != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		if err := shared.cluster.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		cancel()
	}
	if shared.dir != "" {
		_ = os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

// New opens a store on a fresh migrated database, which ends with the test.
func New(t testing.TB) *featurestore.Store {
	t.Helper()
	s, err := featurestore.Open(t.Context(), URL(t), featurestore.Options{MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// URL is where a fresh migrated database is, which ends with the test. It is
// not durable against a crash of the server, only the server's own processes'.
func URL(t testing.TB) string {
	t.Helper()
	if !shared.main.Load() {
		t.Fatal("a test that needs a database needs in its package: func TestMain(m *testing.M) { featurestoretest.Main(m) }")
	}
	shared.once.Do(func() { shared.err = start() })
	if shared.err != nil {
		t.Fatalf("tests need a Postgres server: %v", shared.err)
	}
	name := fmt.Sprintf("test_%d", shared.number.Add(1))
	if err := execute(t.Context(), "CREATE DATABASE "+name+" TEMPLATE "+template); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := execute(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return within(name)
}

// Pooled is the URL of the same database through a PgBouncer in transaction mode,
// with sessions shared by all who connect. It ends with the test.
func Pooled(t testing.TB, database string, sessions int) string {
	t.Helper()
	pooler, err := pglocal.StartPooler(t.Context(), shared.cluster, sessions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pooler.Stop)
	through, err := pooler.Through(database)
	if err != nil {
		t.Fatal(err)
	}
	return through
}

// start runs the cluster and fills the template.
func start() error {
	dir, err := os.MkdirTemp("", "spillway-test-")
	if err != nil {
		return err
	}
	shared.dir = dir
	if err := os.Chmod(dir, 0o755); err != nil { // the server's user enters it
		return err
	}
	ctx := context.Background()
	shared.cluster, err = pglocal.Start(ctx, pglocal.Config{DataDir: dir, Settings: map[string]string{
		"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "32MB",
	}})
	if err != nil {
		return err
	}
	if err := execute(ctx, "CREATE DATABASE "+template); err != nil {
		return err
	}
	s, err := featurestore.Open(ctx, within(template), featurestore.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Migrate(ctx)
}

// within is the URL of another database of the shared cluster.
func within(database string) string {
	u, err := url.Parse(shared.cluster.URL())
	if err != nil {
		panic(err) // pglocal made it
	}
	u.Path = "/" + database
	return u.String()
}

func execute(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, shared.cluster.URL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql)
	return err
}
