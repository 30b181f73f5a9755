package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/trainer/learn"
)

// bundles forecasts with what was learned of a world.
type bundles struct{ *bundle.Evaluator }

// Forecast is what the simulator calls Evaluate.
func (b *bundles) Forecast(vectors []feature.Vector, out []feature.Forecast) {
	b.Evaluate(vectors, out)
}

const (
	learnedFrom = 2500    // requests at each load
	otherwise   = 1 << 32 // how far seeds of traffic that is learned from lie from those of the log
)

// learns reports whether anybody asks for the bundle of a world.
func (w *world) learns() bool {
	return w.logged.says == forests || slices.ContainsFunc(w.targets, func(t target) bool { return t.says != nil && *t.says == forests })
}

// learn makes the bundle of a world from other traffic of the same fleet, at half
// of the load and at all of it, which the matched configuration served.
func (w *world) learn(ctx context.Context, seed uint64) (*bundles, error) {
	task := learn.Task{LLM: w.name, Learned: [bundle.Targets]bool{true, true, true, true}}
	var ended time.Duration
	for i, share := range []float64{0.5, 1} {
		other := *w
		other.share *= share
		from := seeds{engines: seed, traffic: seed + uint64(i+1)*otherwise, run: seed + uint64(i+1)*otherwise}
		c, err := other.config(from, time.Duration(learnedFrom/other.rate()*float64(time.Second)))
		if err != nil {
			return nil, err
		}
		c.Router.Policy = policy.Predicted
		var rows []*feature.Row
		c.Rows = func(r *feature.Row) { rows = append(rows, r) }
		c.Sink = func(fleet.Outcome) {}
		result, err := fleet.Simulate(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		slices.SortFunc(rows, func(a, b *feature.Row) int { return slices.Compare(a.Decision[:], b.Decision[:]) })
		for _, r := range rows {
			r.DecidedAt = r.DecidedAt.Add(ended)
			r.Outcome.DecidedAt, r.Outcome.FinishedAt = r.Outcome.DecidedAt.Add(ended), r.Outcome.FinishedAt.Add(ended)
			if s, ok := learn.SampleOf(r); ok {
				task.Samples = append(task.Samples, s)
			}
			task.At = r.DecidedAt
		}
		ended += result.Ended
	}
	b, err := learn.Fit(ctx, task, learn.Defaults())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.name, err)
	}
	e, err := b.Evaluator()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.name, err)
	}
	return &bundles{e}, nil
}
