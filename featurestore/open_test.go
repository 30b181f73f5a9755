package featurestore_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
)

func TestOpenErrors(t *testing.T) {
	good, err := url.Parse(featurestoretest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	noDatabase, noUser := *good, *good
	noDatabase.Path = "/absent"
	noUser.User = url.UserPassword("stranger", "secret")
	for _, c := range []struct{ name, url, says string }{
		{"empty", " ", "DATABASE_URL is empty"},
		{"no URL", "postgres://host:port/x", "DATABASE_URL is not a Postgres URL"},
		{"unreachable", "postgres://spillway:secret@127.0.0.1:1/spillway", "no database answers at 127.0.0.1:1, where DATABASE_URL points"},
		{"database", noDatabase.String(), `DATABASE_URL names the database "absent", which does not exist`},
		{"user", noUser.String(), `DATABASE_URL names the user "stranger"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := featurestore.Open(t.Context(), c.url, featurestore.Options{})
			if err == nil {
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
				t.Errorf("says %q, want one line with %q and no password", err, c.says)
			}
		})
	}
}

// empty leaves nothing in a database.
func empty(t *testing.T, fresh string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), fresh)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "DROP SCHEMA public CASCADE"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "CREATE SCHEMA public"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestMigrateTogether(t *testing.T) {
	url := featurestoretest.URL(t)
	empty(t, url)
	store := open(t, url)
	if st, err := store.Status(t.Context()); err != nil || st.Migration != 0 || st.Latest == 0 {
		t.Errorf("before: %+v %v", st, err)
	}
	if _, err := store.LLMs(t.Context()); err == nil || !strings.Contains(err.Error(), "run 'spillway store migrate'") {
		t.Errorf("without a schema: %v", err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := store.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if st, err := store.Status(t.Context()); err != nil || st.Migration != st.Latest {
		t.Errorf("after: %+v %v", st, err)
	}
}

// A migration may take longer than the database lets a transaction wait for its
// client, as the one that holds the lock meanwhile does.
func TestALongMigration(t *testing.T) {
	url := featurestoretest.URL(t)
	empty(t, url)
	other, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.WithoutCancel(t.Context()))
	holding, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holding.Exec(t.Context(), "CREATE TABLE decisions (held bool)"); err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	store := open(t, url+"&idle_in_transaction_session_timeout=1s")
	go func() { migrated <- store.Migrate(t.Context()) }()
	if _, err := other.Exec(t.Context(), "SELECT pg_sleep(1.5)"); err != nil {
		t.Fatal(err)
	}
	if err := holding.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Error(err)
	}
}

// A pooler in transaction mode hands the next transaction another session:
// nothing may stay behind in one.
func TestLeavesNothingInTheSession(t *testing.T) {
	ctx, store := t.Context(), featurestoretest.New(t)
	src := newSource()
	w, stop := running(t, store, featurestore.WriterConfig{SpoolDir: t.TempDir()})
	src.record(w, 10)
	if err := w.Drain(soon(t)); err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := store.Maintain(ctx, noon, day, 365*day); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.AcquireLease(ctx, "refit", "a", time.Minute); err != nil {
		t.Fatal(err)
	}
	for range store.Window(ctx, "qwen", noon, noon.Add(day), 3) {
	}
	for _, conn := range store.Pool().AcquireAllIdle(ctx) {
		var prepared, temporary, locks int
		var timeout string
		err := conn.QueryRow(ctx, `SELECT
			(SELECT count(*) FROM pg_prepared_statements WHERE name <> ''),
			(SELECT count(*) FROM pg_class WHERE relpersistence = 't' AND relkind = 'r'),
			(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'),
			current_setting('lock_timeout')`).Scan(&prepared, &temporary, &locks, &timeout)
		if err != nil || prepared+temporary+locks > 0 || timeout != "0" {
			t.Errorf("%d prepared statements, %d temporary tables, %d locks, lock_timeout %s: %v", prepared, temporary, locks, timeout, err)
		}
		conn.Release()
	}
}

// Whoever loses the lease while it publishes publishes nothing; whoever holds
// it while another waits for it publishes first.
func TestPublishRaces(t *testing.T) {
	ctx, store := t.Context(), featurestoretest.New(t)
	const owners, rounds = 4, 10
	published := make([][]int64, owners)
	var wg sync.WaitGroup
	for i := range owners {
		wg.Go(func() {
			owner := string(rune('a' + i))
			for range rounds {
				// The lease is taken anew all the time, so it is lost between
				// any two statements.
				lease, ok, err := store.AcquireLease(ctx, "refit", owner, time.Millisecond)
				if err != nil {
					t.Error(err)
					return
				}
				if !ok {
					continue
				}
				v, _, err := store.PublishBundle(ctx, lease, featurestore.Bundle{
					LLM: "qwen", Bytes: []byte(owner), Accepted: true, MaxAge: time.Minute})
				if err == nil {
					published[i] = append(published[i], v)
				} else if !errors.Is(err, featurestore.ErrLeaseLost) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	want := map[int64]string{}
	var last int64
	for i, versions := range published {
		for _, v := range versions {
			want[v] = string(rune('a' + i))
			last = max(last, v)
		}
	}
	bundles, err := store.Bundles(ctx, "qwen", 1000)
	if err != nil || len(bundles) != len(want) {
		t.Errorf("%d bundles %v, want %d", len(bundles), err, len(want))
	}
	if len(want) == 0 {
		return
	}
	served, err := store.Served(ctx, "qwen")
	if err != nil || served.Version != last || string(served.Bytes) != want[last] {
		t.Errorf("served %d %q %v, want %d %q", served.Version, served.Bytes, err, last, want[last])
	}
}

func TestListen(t *testing.T) {
	url := featurestoretest.URL(t)
	store := open(t, url)
	var log heard
	listener, err := featurestore.Open(t.Context(), url, featurestore.Options{Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(listener.Close)
	ctx, cancel := context.WithCancel(t.Context())
	versions, ended := make(chan int64, 10), make(chan error, 1)
	// What a URL says of a pool is nothing to one connection.
	go func() { ended <- listener.Listen(ctx, url+"&pool_max_conns=4", func(v int64) { versions <- v }) }()
	log.wait(t, "listening for bundles")
	lease, _, err := store.AcquireLease(t.Context(), "refit", "a", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	publish := func(accepted bool) int64 {
		t.Helper()
		v, _, err := store.PublishBundle(t.Context(), lease, featurestore.Bundle{LLM: "qwen", Accepted: accepted, MaxAge: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	hear := func(want int64) {
		t.Helper()
		select {
		case got := <-versions:
			if got != want {
				t.Errorf("heard %d, want %d", got, want)
			}
		case <-soon(t).Done():
			t.Fatalf("never heard %d", want)
		}
	}
	v1 := publish(true)
	hear(v1)
	publish(false) // is not heard
	if err := store.Revalidate(t.Context(), lease, "qwen", v1, time.Now(), "validated"); err != nil {
		t.Fatal(err)
	}
	hear(v1)

	// Cut the connection: it listens again by itself.
	_, err = store.Pool().Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE 'LISTEN %' AND pid <> pg_backend_pid()`)
	if err != nil {
		t.Fatal(err)
	}
	log.wait(t, "not listening for bundles, polling serves")
	log.wait(t, "listening for bundles")
	hear(publish(true))
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}

	// Without a URL it is silent; with a wrong one it says so.
	if err := listener.Listen(ctx, "", nil); err != nil {
		t.Error(err)
	}
	if err := listener.Listen(ctx, "postgres://x:secret@host:port/x", nil); err == nil || !strings.Contains(err.Error(), "LISTEN_DATABASE_URL") || strings.Contains(err.Error(), "secret") {
		t.Errorf("wrong listening URL: %v", err)
	}
}
