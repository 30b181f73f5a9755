package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/trainer"
)

// developed is how far the seeds of the traffic that is learned from lie from
// those that are judged.
const developed = 1 << 32

// lessons are what a fleet learned before it is judged.
type lessons struct {
	bundle   fleet.Forecaster // nil: the gate refused everything
	rows     int
	outcomes []string // of the refits
	why      []string // of refusals
}

// refits are how often the trainer tries at most: in production every ten minutes.
const refits = 4

// learn lets the fleet of a seed serve traffic of the world and refits from it:
// at least twice, the second time also from what the first bundle decided, and
// until one passed the gate. While none has, the fallback decides.
func (w *world) learn(ctx context.Context, seed uint64) (lessons, error) {
	var out lessons
	var store window
	low, high := w.loads[0], w.loads[len(w.loads)-1]
	run := uint64(0)
	for try := 0; try < refits && (try < 2 || out.bundle == nil); try++ {
		loads := []float64{high}
		if try%2 == 0 {
			loads = []float64{low, high}
		}
		for _, load := range loads {
			run++
			rows, err := w.log(ctx, seed, developed*run+seed, load, out.bundle)
			if err != nil {
				return out, err
			}
			store.add(rows)
		}
		r, err := store.refit(ctx, w.profiles())
		if err != nil {
			return out, fmt.Errorf("%s, seed %d: refit: %w", w.name, seed, err)
		}
		out.rows = r.Rows
		out.outcomes, out.why = append(out.outcomes, r.Outcome), append(out.why, r.Why)
		if store.served.Version == 0 {
			continue
		}
		b, err := bundle.Decode(store.served.Bytes)
		if err != nil {
			return out, err
		}
		e, err := b.Evaluator()
		if err != nil {
			return out, err
		}
		out.bundle = evaluator(e.Evaluate)
	}
	return out, nil
}

// log is the rows of one run that is learned from, in order of decision.
func (w *world) log(ctx context.Context, fleetSeed, trafficSeed uint64, load float64, b fleet.Forecaster) ([]feature.Row, error) {
	c, err := w.config(fleetSeed, trafficSeed, load, false)
	if err != nil {
		return nil, err
	}
	var rows []feature.Row
	c.Rows = func(r *feature.Row) { rows = append(rows, *r) }
	c.Sink = func(fleet.Outcome) {}
	c.Router.Policy, c.Router.Forecaster = policy.Predicted, b
	if _, err := fleet.Simulate(ctx, c); err != nil {
		return nil, fmt.Errorf("%s at %g, seed %d: %w", w.name, load, fleetSeed, err)
	}
	slices.SortFunc(rows, func(a, b feature.Row) int { return slices.Compare(a.Decision[:], b.Decision[:]) })
	return rows, nil
}

// profiles are what the trainer is configured with, as the router is.
func (w *world) profiles() map[string]physics.Profile {
	c, err := w.config(0, 0, w.loads[0], false)
	if err != nil {
		return nil // and the refit says that it lacks a profile
	}
	return c.Router.Profiles
}

// llm is what the rows are of.
const llm = "bench"

// window is a store of one trainer: the rows so far, and what is served.
type window struct {
	rows   []feature.Row
	served trainer.Served // its version is 0 when nothing is
	stored int64
}

// add adds the rows of a run as if it had begun when the last one ended.
func (w *window) add(rows []feature.Row) {
	var by time.Duration
	if n := len(w.rows); n > 0 && len(rows) > 0 {
		ended := slices.MaxFunc(w.rows, func(a, b feature.Row) int { return a.Outcome.FinishedAt.Compare(b.Outcome.FinishedAt) })
		by = ended.Outcome.FinishedAt.Sub(rows[0].DecidedAt)
	}
	for _, r := range rows {
		r.LLM = llm
		r.DecidedAt = r.DecidedAt.Add(by)
		r.Outcome.DecidedAt, r.Outcome.FinishedAt = r.Outcome.DecidedAt.Add(by), r.Outcome.FinishedAt.Add(by)
		w.rows = append(w.rows, r)
	}
}

// refit runs one cycle of the trainer over all rows, with its defaults.
func (w *window) refit(ctx context.Context, profiles map[string]physics.Profile) (trainer.Result, error) {
	c := trainer.Defaults()
	c.Profiles, c.DefaultProfile = profiles, profiles[classFast]
	c.MostForecast = time.Second // a busy machine changes nothing
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

// LLMs lists the one there is.
func (w *window) LLMs(context.Context) ([]string, error) { return []string{llm}, nil }

// Window streams all rows, as if the last of them had just ended.
func (w *window) Window(_ context.Context, _ string, _, to time.Time, _ int) iter.Seq2[feature.Row, error] {
	return func(yield func(feature.Row, error) bool) {
		ended := slices.MaxFunc(w.rows, func(a, b feature.Row) int {
			return cmp.Compare(a.Outcome.FinishedAt.UnixNano(), b.Outcome.FinishedAt.UnixNano())
		})
		by := to.Add(-time.Second).Sub(ended.Outcome.FinishedAt)
		for _, r := range w.rows {
			r.DecidedAt = r.DecidedAt.Add(by)
			r.Outcome.DecidedAt, r.Outcome.FinishedAt = r.Outcome.DecidedAt.Add(by), r.Outcome.FinishedAt.Add(by)
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Served returns what passed the gate last.
func (w *window) Served(context.Context, string) (trainer.Served, error) {
	if w.served.Version == 0 {
		return trainer.Served{}, trainer.ErrNotServed
	}
	return w.served, nil
}

// LastVerdict tells nothing: every refit here is one that is due.
func (w *window) LastVerdict(context.Context, string) (int64, json.RawMessage, error) {
	return 0, nil, nil
}

// Lease gives the right to refit to whoever asks: there is one trainer.
func (w *window) Lease(context.Context, string, time.Duration) (trainer.Lease, bool, error) {
	return w, true, nil
}

// Renew renews what nobody takes.
func (w *window) Renew(context.Context, time.Duration) error { return nil }

// Release gives it back.
func (w *window) Release(context.Context) error { return nil }

// Publish serves what was accepted.
func (w *window) Publish(_ context.Context, p trainer.Published) (int64, bool, error) {
	w.stored++
	if p.Accepted {
		w.served = trainer.Served{Version: w.stored, Validated: time.Now(), Bytes: p.Bytes}
	}
	return w.stored, p.Accepted, nil
}

// Revalidate changes nothing: nothing becomes stale here.
func (w *window) Revalidate(context.Context, string, int64, time.Time, string) error { return nil }
