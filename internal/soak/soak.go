package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/pglocal"
	"github.com/spillway-llm/spillway/internal/bench"
)

// soak brings up a database and a world, lets the rounds go by, and ends all.
func soak(ctx context.Context, log io.Writer, o options) (t *tally, err error) {
	dir, err := os.MkdirTemp("", "spillway-soak-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // the server's user enters it
		return nil, err
	}
	cluster, err := pglocal.Start(ctx, pglocal.Config{DataDir: dir, Settings: map[string]string{"fsync": "off", "shared_buffers": "64MB"}})
	if err != nil {
		return nil, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		err = errors.Join(err, cluster.Stop(ctx))
	}()
	return rounds(ctx, log, o, cluster.URL())
}

// rounds soaks a router whose rows go to an empty database.
func rounds(ctx context.Context, log io.Writer, o options, database string) (*tally, error) {
	store, err := featurestore.Open(ctx, database, featurestore.Options{})
	if err != nil {
		return nil, err
	}
	err = store.Migrate(ctx)
	store.Close()
	if err != nil {
		return nil, err
	}
	base := runtime.NumGoroutine()
	began := time.Now()
	w, err := raise(ctx, o, database)
	if err != nil {
		return nil, err
	}
	t := &tally{}
	rng := rand.New(rand.NewPCG(o.seed, 0))
	tick := bench.Progress("rounds", int(o.lasting/o.round))
	for n := 0; time.Since(began) < o.lasting && err == nil; n++ {
		var r round
		r, err = w.round(ctx, o, rng, n)
		t.Rounds = append(t.Rounds, r)
		fmt.Fprintf(log, "round %s\n", r)
		tick()
	}
	t.Seconds = time.Since(began).Seconds()
	if err = errors.Join(err, w.end()); err != nil {
		return nil, err
	}
	t.Left = max(0, goroutinesAbove(ctx, base))
	return t, nil
}

// round is one round of trouble and what was left when all was well again.
type round struct {
	Number  int     `json:"number"`
	Traffic traffic `json:"traffic"`
	Away    bool    `json:"away"`    // the store was, in the middle of it
	Spooled int     `json:"spooled"` // rows that waited on disk at its end

	InFlight  float64 `json:"in_flight"` // requests, of those by the ledger, when no client had any
	Prefill   float64 `json:"prefill_tokens"`
	Engines   float64 `json:"in_engines"` // requests that engines still worked on
	Missing   int     `json:"missing"`    // endpoints that are not known or not healthy
	Unended   int     `json:"unended"`    // decisions without an outcome
	Stray     int64   `json:"stray"`      // outcomes of no decision
	Unknown   int64   `json:"unknown"`    // decisions that clients were told of and that were not recorded
	Decisions int64   `json:"decisions"`  // recorded since the beginning
	Lost      int64   `json:"lost"`       // rows recorded and not stored, or stored more than once
	Dropped   int64   `json:"dropped"`    // rows that the writer gave up

	Heap       uint64 `json:"heap_bytes"` // in use after a collection
	Goroutines int    `json:"goroutines"`
	Files      int    `json:"files"` // open, sockets included; 0 where the system does not tell
}

func (r round) String() string {
	return fmt.Sprintf("%d: %d requests (%d whole, %d left, %d refused, %d failed), %d decisions stored, %d lost; %g in flight; %.1f MB, %d goroutines, %d files",
		r.Number, r.Traffic.Requests, r.Traffic.Whole, r.Traffic.Left, r.Traffic.Refused, r.Traffic.Failed,
		r.Decisions, r.Lost, r.InFlight, float64(r.Heap)/1e6, r.Goroutines, r.Files)
}

// quiet is how long a world may take to come to rest once all is well: longer
// than any time that the router was given.
const quiet = 20 * time.Second

func (w *world) round(ctx context.Context, o options, rng *rand.Rand, n int) (r round, err error) {
	r.Number, r.Away = n, n%2 == 1
	trouble, calm := context.WithTimeout(ctx, o.round)
	defer calm()
	var all errgroup.Group
	seed, troubled := rng.Uint64(), rand.New(rand.NewPCG(rng.Uint64(), 0))
	all.Go(func() error { return w.trouble(trouble, o, troubled, r.Away) })
	all.Go(func() error { r.Traffic = w.crowd.run(trouble, o.clients, seed); return nil })
	if err := all.Wait(); err != nil {
		return r, err
	}
	if err := ctx.Err(); err != nil {
		return r, err
	}
	r.Spooled = w.writer.Stats().SpooledRows
	rest, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	if err := w.settle(rest, o, &r); err != nil {
		return r, err
	}
	if err := w.writer.Drain(rest); err != nil {
		return r, err
	}
	w.hangUp()
	return r, w.weigh(rest, &r)
}

// settle waits until nothing is in flight and every endpoint is well, at most
// until ctx ends, and notes what there was then.
func (w *world) settle(ctx context.Context, o options, r *round) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := w.status(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil {
			r.InFlight, r.Prefill, r.Engines, r.Missing = 0, 0, 0, o.endpoints
			for _, e := range s.Endpoints {
				r.InFlight += float64(e.InFlight)
				r.Prefill += float64(e.PrefillTokens)
				r.Engines += float64(e.Running) + float64(e.Waiting)
				if e.Healthy {
					r.Missing--
				}
			}
		}
		_, _, r.Stray, r.Unended = w.rows.look()
		if r.InFlight == 0 && r.Prefill == 0 && r.Engines == 0 && r.Missing == 0 && r.Unended == 0 {
			return nil
		}
		select {
		case <-ctx.Done(): // then the numbers tell
			return nil
		case <-tick.C:
		}
	}
}

// weigh counts rows, memory and goroutines of a world at rest.
func (w *world) weigh(ctx context.Context, r *round) error {
	stored, err := w.reader.Count(ctx, w.began, time.Now().Add(time.Minute))
	if err != nil {
		return err
	}
	decisions, outcomes, _, _ := w.rows.look()
	r.Decisions = decisions
	r.Lost = distance(decisions, stored.Decisions) + distance(outcomes, stored.Outcomes) + distance(decisions, stored.Joined)
	r.Dropped = w.writer.Stats().Dropped
	r.Unknown = w.rows.unknown(r.Traffic.told)
	r.Traffic.told = nil
	debug.FreeOSMemory() // two collections, so that pools are empty too
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	r.Heap, r.Goroutines, r.Files = live[0].Value.Uint64(), runtime.NumGoroutine(), openFiles()
	return nil
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

// openFiles counts the files this process has open, where the system tells.
func openFiles() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(list)
}

// goroutinesAbove is by how many there are more goroutines than before, once
// those that are about to end have done so.
func goroutinesAbove(ctx context.Context, before int) int {
	ctx, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		above := runtime.NumGoroutine() - before
		if above <= 0 {
			return 0
		}
		select {
		case <-ctx.Done():
			return above
		case <-tick.C:
		}
	}
}
