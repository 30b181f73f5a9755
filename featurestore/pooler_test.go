package featurestore_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
)

// All that routers, trainers and predictors do at once, through a PgBouncer in
// transaction mode with fewer sessions than they have connections: each transaction
// may find another session, and what the one before left in it.
func TestThroughPgBouncer(t *testing.T) {
	direct := featurestoretest.URL(t)
	empty(t, direct)
	through := featurestoretest.Pooled(t, direct, 2)
	var log heard
	service := func() *featurestore.Store {
		t.Helper()
		s, err := featurestore.Open(t.Context(), through, featurestore.Options{Logger: log.logger(), MaxConns: 4, StatementTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	routers := []*featurestore.Store{service(), service()}
	trainer, predictor := service(), service()
	log.wait(t, "the pooler at DATABASE_URL takes no statement_timeout: set it for the role")

	var migrating sync.WaitGroup
	for _, s := range []*featurestore.Store{routers[0], routers[1], trainer, predictor} {
		migrating.Go(func() {
			if err := s.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	migrating.Wait()

	// Notifications go past the pooler.
	ctx, cancel := context.WithCancel(t.Context())
	versions, ended := make(chan int64, 100), make(chan error, 1)
	go func() { ended <- predictor.Listen(ctx, direct, func(v int64) { versions <- v }) }()
	log.wait(t, "listening for bundles")

	src := newSource()
	var work sync.WaitGroup
	for _, store := range routers {
		w, _ := running(t, store, featurestore.WriterConfig{SpoolDir: t.TempDir(), BatchSize: 20, FlushInterval: time.Millisecond})
		src.record(w, 200)
		work.Go(func() {
			if _, err := store.Maintain(ctx, noon, 2*day, 365*day); err != nil {
				t.Error(err)
			}
			if err := w.Drain(soon(t)); err != nil {
				t.Error(err)
			}
			if n := w.Stats().Dropped; n > 0 {
				t.Errorf("%d rows were dropped", n)
			}
		})
	}
	work.Go(func() {
		lease, ok, err := trainer.AcquireLease(ctx, "refit", "a", time.Minute)
		if err != nil || !ok {
			t.Error(ok, err)
			return
		}
		for range 10 {
			for _, err := range trainer.Window(ctx, "qwen", noon, noon.Add(day), 100) {
				if err != nil {
					t.Error(err)
					return
				}
			}
			if lease, err = trainer.RenewLease(ctx, lease, time.Minute); err != nil {
				t.Error(err)
				return
			}
			if _, _, err := trainer.PublishBundle(ctx, lease, featurestore.Bundle{LLM: "qwen", Bytes: []byte("b"), Accepted: true, MaxAge: time.Minute}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	work.Go(func() {
		for range 10 {
			v := <-versions
			if got, err := predictor.Bundle(ctx, v); err != nil || string(got.Bytes) != "b" {
				t.Errorf("bundle %d: %q, %v", v, got.Bytes, err)
			}
		}
	})
	work.Wait()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	src.stored(t, routers[0])

	// And nothing stays in a session for the next who gets it.
	var left string
	err := routers[0].Pool().QueryRow(t.Context(), `SELECT concat_ws(' ', (SELECT string_agg(name, ' ') FROM pg_prepared_statements WHERE name <> ''),
		(SELECT string_agg(relname, ' ') FROM pg_class WHERE relpersistence = 't' AND relkind = 'r'),
		(SELECT string_agg(locktype, ' ') FROM pg_locks WHERE locktype = 'advisory'))`).Scan(&left)
	if err != nil || left != "" {
		t.Errorf("left in the database: %q, %v", left, err)
	}
}

// Where the server itself is reached it is told how long a statement may take, who
// asks, and to end a transaction that nobody goes on with.
func TestLimitsOfASession(t *testing.T) {
	url := featurestoretest.URL(t)
	show := func(url string, o featurestore.Options) string {
		t.Helper()
		s, err := featurestore.Open(t.Context(), url, o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var got string
		err = s.Pool().QueryRow(t.Context(), `SELECT concat_ws(' ', current_setting('application_name'), current_setting('statement_timeout'),
			current_setting('idle_in_transaction_session_timeout'), $1::int)`, s.Pool().Config().MaxConns).Scan(&got)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	with := func(query string) string { return url + "&" + query }
	for _, c := range []struct {
		url  string
		o    featurestore.Options
		want string
	}{
		{url, featurestore.Options{MaxConns: 3}, "spillway 0 0 3"},
		{url, featurestore.Options{MaxConns: 3, StatementTimeout: 5 * time.Minute}, "spillway 5min 1min 3"},
		{with("statement_timeout=7s&application_name=mine&pool_max_conns=2"), featurestore.Options{MaxConns: 3, StatementTimeout: time.Minute}, "mine 7s 1min 2"},
		{with("options=-c%20statement_timeout%3D8s"), featurestore.Options{MaxConns: 3, StatementTimeout: time.Minute}, "spillway 8s 1min 3"},
	} {
		if got := show(c.url, c.o); got != c.want {
			t.Errorf("%s: got %q, want %q", c.url[strings.Index(c.url, "?"):], got, c.want)
		}
	}
	s, err := featurestore.Open(t.Context(), url, featurestore.Options{StatementTimeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Pool().Exec(t.Context(), `SELECT pg_sleep(60)`); err == nil || !strings.Contains(err.Error(), "statement timeout") {
		t.Errorf("a statement of a minute: %v", err)
	}
}

// A pooler that refuses for another reason is not said to refuse a setting.
func TestAPoolerThatRefusesAll(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			server := pgproto3.NewBackend(conn, conn)
			if _, err := server.ReceiveStartupMessage(); err == nil {
				server.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "no such database: spillway"})
				_ = server.Flush()
			}
			conn.Close()
		}
	}()
	var log heard
	url := "postgres://spillway@" + l.Addr().String() + "/spillway?sslmode=disable"
	_, err = featurestore.Open(t.Context(), url, featurestore.Options{Logger: log.logger(), StatementTimeout: time.Minute})
	if err == nil || !strings.Contains(err.Error(), "no such database: spillway") || len(log.count) > 0 {
		t.Errorf("says %v, and logs %v", err, log.count)
	}
}
