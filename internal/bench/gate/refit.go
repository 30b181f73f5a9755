package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer"
)

// kind is one kind of window.
type kind struct {
	name   string
	refits int // 0: as many as were asked for
	// rows are those of a window that ends at now.
	rows func(rng *rand.Rand, seed uint64, now time.Time) []feature.Row
}

// nothing is a window whose prior is right but for noise, of any correlation.
func nothing(rng *rand.Rand, seed uint64, now time.Time) []feature.Row {
	return null(seed).rows(size(rng), now)
}

// good is a window of n rows in which there is something to learn.
func good(n int) func(*rand.Rand, uint64, time.Time) []feature.Row {
	return func(_ *rand.Rand, seed uint64, now time.Time) []feature.Row { return clean(seed).rows(n, now) }
}

// beside is how many refits there are for each one that stands beside a good
// bundle.
const beside = 3

// run refits the kind's windows, several at once. One in three bad ones stands
// beside what is served.
func (k *kind) run(ctx context.Context, served trainer.Served, seed uint64, now time.Time, done func()) (*tally, error) {
	t := &tally{Kind: k.name, Refits: k.refits, Outcomes: map[string]int{}, Grounds: map[string]int{}}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range k.refits {
		g.Go(func() error {
			at := seed<<20 + uint64(i)
			w := window{rows: k.rows(rand.New(rand.NewPCG(at, 12)), at, now)}
			if i%beside == 0 && slices.ContainsFunc(faults, func(f kind) bool { return f.name == k.name }) {
				w.served = served
			}
			before := w.served.Version
			r, err := w.refit(ctx, at)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			defer done()
			t.Outcomes[r.Outcome]++
			if w.served.Version != before {
				t.Published++
			}
			if r.Verdict != nil {
				for _, ground := range r.Verdict.Grounds {
					t.Grounds[string(ground)]++
				}
			}
			return nil
		})
	}
	return t, g.Wait()
}

// servedBundle is a bundle that passed the gate.
func servedBundle(ctx context.Context, seed uint64, now time.Time) (trainer.Served, error) {
	for try := range uint64(20) {
		w := window{rows: clean(seed<<20+try).rows(600, now)}
		if _, err := w.refit(ctx, seed); err != nil || w.served.Version != 0 {
			return w.served, err
		}
	}
	return trainer.Served{}, errors.New("of 20 good windows none was published")
}

// refit runs one cycle on a window. What is fitted is small: the gate is
// judged, not the forests.
func (w *window) refit(ctx context.Context, seed uint64) (trainer.Result, error) {
	c := trainer.Defaults()
	c.HeldOutShare, c.Seed, c.DefaultProfile = heldOut, seed, null(0).profile
	c.Fit.Trees, c.Fit.LearningRate = 30, 0.15
	c.MostForecast = time.Second // counts alone: a busy machine changes nothing
	t, err := trainer.New(c, "bench", w, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		return trainer.Result{}, err
	}
	results, err := t.Once(ctx)
	if err != nil {
		return trainer.Result{}, err
	}
	return results[0], nil
}

// counts lists numbers by name.
func counts(m map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, m[name]))
	}
	return strings.Join(parts, ", ")
}
