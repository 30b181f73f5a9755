package featurestore

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// hanging is a store whose database takes every connection and never answers.
func hanging(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), "postgres://nobody@192.0.2.1/nowhere?sslmode=disable", Options{Lazy: true})
	if err != nil {
		t.Fatal(err)
	}
	config := s.pool.Config()
	s.Close()
	config.ConnConfig.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }() // until ours is closed
		return ours, nil
	}
	s.pool, err = pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A killed process must not lose a batch that waited in memory for all of an
// outage.
func TestNoBatchOutstaysAHangingDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hanging(t)
		config := WriterConfig{SpoolDir: t.TempDir(), BatchSize: 10, FlushInterval: 100 * time.Millisecond, WriteTimeout: 2 * time.Second}
		w, err := NewWriter(store, config)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()

		rng := rand.New(rand.NewPCG(1, 2))
		recorded := 0
		record := func(n int) {
			for range n {
				r := someRecord(rng, 1)
				if recorded++; r.decision != nil {
					w.RecordDecision(*r.decision)
				} else {
					w.RecordOutcome(*r.outcome)
				}
			}
			synctest.Wait()
		}
		for range 20 { // some of it while a transaction hangs, some between two
			record(25)
			<-time.After(700 * time.Millisecond)
		}
		<-time.After(config.FlushInterval + 2*config.WriteTimeout)
		synctest.Wait()
		if s := w.Stats(); s.SpooledRows != recorded || s.Dropped != 0 || s.DatabaseUp {
			t.Errorf("%+v, want all %d rows on disk", s, recorded)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		store.Close()
	})
}
