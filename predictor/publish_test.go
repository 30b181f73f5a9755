package predictor_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/predictor"
)

func TestMain(m *testing.M) { featurestoretest.Main(m) }

// storeSource follows a real store, as "spillway predictor" does. Without a
// URL to listen at it is not notified.
type storeSource struct {
	store     *featurestore.Store
	listenURL string
}

func (s storeSource) Published(ctx context.Context) ([]predictor.Published, error) {
	pointers, err := s.store.ServedLLMs(ctx)
	out := make([]predictor.Published, len(pointers))
	for i, p := range pointers {
		out[i] = predictor.Published{LLM: p.LLM, Version: p.Version, SHA256: p.SHA256, ValidatedAt: p.ValidatedAt, MaxAge: p.MaxAge}
	}
	return out, err
}

func (s storeSource) Bundle(ctx context.Context, version int64) ([]byte, error) {
	b, err := s.store.Bundle(ctx, version)
	return b.Bytes, err
}

func (s storeSource) Listen(ctx context.Context, changed func()) error {
	return s.store.Listen(ctx, s.listenURL, func(int64) { changed() })
}

// messages hands on what is logged.
type messages struct {
	slog.Handler
	said chan string
}

func (messages) Enabled(context.Context, slog.Level) bool { return true }

func (m messages) Handle(_ context.Context, r slog.Record) error {
	select {
	case m.said <- r.Message:
	default: // nobody is interested in so much
	}
	return nil
}

// clock counts the time in which this process got to run: what a busy machine
// keeps from it does not count.
type clock struct{ nanoseconds atomic.Int64 }

func (c *clock) run(ctx context.Context) {
	const step = 5 * time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		c.nanoseconds.Add(int64(min(now.Sub(last), 2*step)))
		last = now
	}
}

func (c *clock) now() time.Duration { return time.Duration(c.nanoseconds.Load()) }

// follower is one predictor under load.
type follower struct {
	clock    *clock
	notified bool
	client   *predictor.Client

	mu      sync.Mutex
	changed *sync.Cond    // by every answer
	bundle  int64         // of the last answer
	slowest time.Duration // of all answers
	failed  error
}

// ask asks until ctx ends, some hundred times a second.
func (f *follower) ask(ctx context.Context) {
	vectors, out := vectorsOf(1, 16), make([]feature.Forecast, 16)
	pause := time.NewTicker(3 * time.Millisecond)
	defer pause.Stop()
	for range pause.C {
		began := f.clock.now()
		info, err := f.client.Forecast(ctx, llm, vectors, out)
		if ctx.Err() != nil {
			return
		}
		f.mu.Lock()
		if err == nil && info.Bundle < f.bundle {
			err = fmt.Errorf("bundle %d after bundle %d", info.Bundle, f.bundle)
		}
		f.bundle, f.slowest, f.failed = info.Bundle, max(f.slowest, f.clock.now()-began), err
		f.changed.Broadcast()
		f.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// reaches waits until answers are made from a version and returns when.
func (f *follower) reaches(version int64) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.bundle < version && f.failed == nil {
		f.changed.Wait()
	}
	return f.clock.now()
}

// What is published in Postgres is served by every predictor within a second
// where it is notified, within one polling period and the time to load it
// where it is not, and no call fails or is slow meanwhile.
func TestPublishedIsServedEverywhere(t *testing.T) {
	const (
		poll     = 500 * time.Millisecond
		within   = time.Second            // also for a look and its bundle, where polls alone tell
		tolerate = 500 * time.Millisecond // of a call, where all share two cores with a database and the race detector
	)
	url := featurestoretest.URL(t)
	log := messages{slog.DiscardHandler, make(chan string, 100)}
	store, err := featurestore.Open(t.Context(), url, featurestore.Options{MaxConns: 6, Logger: slog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	lease, ok, err := store.AcquireLease(t.Context(), "refit", "test", time.Minute)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var clock clock
	publish := func() (version int64, at time.Duration) {
		t.Helper()
		data := encoded(t, bundleOf(t, 0.3*rng.Float64()))
		version, served, err := store.PublishBundle(t.Context(), lease, featurestore.Bundle{LLM: llm, Bytes: data, Accepted: true, MaxAge: time.Hour})
		if err != nil || !served {
			t.Fatal(served, err)
		}
		return version, clock.now()
	}
	publish()

	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { clock.run(ctx) })
	followers := make([]*follower, 4)
	for i := range followers {
		f := &follower{clock: &clock, notified: i > 0}
		f.changed = sync.NewCond(&f.mu)
		source, every := storeSource{store, ""}, poll
		if f.notified {
			source.listenURL, every = url, time.Hour
		}
		s := predictor.New(predictor.Config{PollInterval: every}, source)
		s.Sync(ctx)
		addr := socket(t)
		serve(t, s, addr)
		f.client = dialReady(t, addr)
		running.Go(func() { _ = s.Run(ctx) })
		running.Go(func() { f.ask(ctx) })
		followers[i] = f
	}
	// What is published before a predictor listens it finds by polling.
	for listening := 0; listening < len(followers)-1; {
		if <-log.said == "listening for bundles" {
			listening++
		}
	}
	for range 3 {
		version, published := publish()
		for i, f := range followers {
			took := f.reaches(version) - published
			switch {
			case f.notified && took > within:
				t.Errorf("predictor %d served bundle %d after %v, want within %v of the notification", i, version, took, within)
			case took > poll+within:
				t.Errorf("predictor %d served bundle %d after %v, want within a polling period of %v", i, version, took, poll)
			}
		}
	}
	cancel()
	running.Wait()
	for i, f := range followers {
		if f.failed != nil {
			t.Errorf("predictor %d: a call failed: %v", i, f.failed)
		}
		if f.slowest > tolerate {
			t.Errorf("predictor %d: a call took %v, want at most %v", i, f.slowest, tolerate)
		}
	}
}
