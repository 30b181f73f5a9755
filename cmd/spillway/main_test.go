package main

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/spillway-llm/spillway/featurestore/pglocal"
)

// These tests drive the built binary as a person or a service manager does:
// as processes on loopback, with a real Postgres and simulated engines.

// bench is what all tests of the package share.
var bench struct {
	binary string // of spillway
	dir    string // removed at the end

	once    sync.Once
	err     error
	cluster *pglocal.Cluster // started by the first test that needs a database
	number  atomic.Int64     // of databases made in it
}

func TestMain(m *testing.M) {
	// They wait for processes more than they compute. The command line can say
	// otherwise: it is read later.
	if err := flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	complain := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var err error
	if bench.dir, err = os.MkdirTemp("", "spillway-e2e-"); err != nil {
		return complain(err)
	}
	defer os.RemoveAll(bench.dir)
	if err := os.Chmod(bench.dir, 0o755); err != nil { // the database's user enters it
		return complain(err)
	}
	bench.binary = filepath.Join(bench.dir, "spillway")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", bench.binary, ".").CombinedOutput(); err != nil {
		return complain(fmt.Errorf("build the binary: %w\n%s", err, out))
	}
	defer func() {
		if bench.cluster != nil {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := bench.cluster.Stop(ctx); err != nil {
				complain(err)
			}
		}
	}()
	return m.Run()
}

// newDatabase is the URL of an empty database without tables, on a server that
// all tests share. It does not survive a crash of that server.
func newDatabase(t *testing.T) string {
	t.Helper()
	bench.once.Do(func() {
		bench.cluster, bench.err = pglocal.Start(context.Background(), pglocal.Config{
			DataDir:  filepath.Join(bench.dir, "pg"),
			Settings: map[string]string{"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "200"},
		})
	})
	if bench.err != nil {
		t.Fatalf("tests need a Postgres server: %v", bench.err)
	}
	name := fmt.Sprintf("test_%d", bench.number.Add(1))
	execute(t, bench.cluster.URL(), "CREATE DATABASE "+name)
	u, err := url.Parse(bench.cluster.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// shortDir makes a directory whose path is short enough for sockets, and that
// the database's user may enter.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(bench.dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// execute runs one statement at the database.
func execute(t *testing.T, database, sql string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// texts returns the one text column that a query gives.
func texts(ctx context.Context, database, sql string) ([]string, error) {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
