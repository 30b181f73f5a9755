package trial

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/trainer/learn"
)

// learnedSeed is of the fleet and the traffic that bundles are learned from. It
// judges nothing.
const learnedSeed = 2001

// learnedShares are of the knee, one after another, each until about as many
// requests were sent.
var learnedShares = []float64{0.4, 0.8, 0.6, 0.9}

const (
	learnedMean     = 0.675 // of the shares
	learnedRequests = 2000  // sent at each share
)

// Learn makes the bundle of a world from what another fleet of its kind, of ten
// endpoints, served with the matched configuration deciding, and says of how many
// rows.
func (w *World) Learn(ctx context.Context) (fleet.Forecaster, int, error) {
	small := *w
	small.Tens = 1
	c, spec, err := small.fleet(learnedSeed)
	if err != nil {
		return nil, 0, err
	}
	var loads []float64
	for _, share := range learnedShares {
		loads = append(loads, share*w.Knee)
	}
	each := time.Duration(learnedRequests / (learnedMean * w.Knee) * float64(time.Second)).Round(time.Second)
	c.Plan = spec.Rising(learnedSeed, loads, each)
	var rows []feature.Row
	c.Rows = func(r *feature.Row) { rows = append(rows, *r) }
	c.Sink = func(fleet.Outcome) {}
	if _, err := fleet.Simulate(ctx, c); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", w.Name, err)
	}
	slices.SortFunc(rows, func(a, b feature.Row) int { return slices.Compare(a.Decision[:], b.Decision[:]) })
	task := learn.Task{LLM: w.Name, Learned: [bundle.Targets]bool{true, true, true, true}}
	for i := range rows {
		if s, ok := learn.SampleOf(&rows[i]); ok {
			task.Samples = append(task.Samples, s)
		}
	}
	task.At = rows[len(rows)-1].DecidedAt
	b, err := learn.Fit(ctx, task, learn.Defaults())
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", w.Name, err)
	}
	e, err := b.Evaluator()
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", w.Name, err)
	}
	return evaluator(e.Evaluate), len(task.Samples), nil
}

// evaluator is a bundle as the simulator asks it.
type evaluator func(vectors []feature.Vector, out []feature.Forecast)

// Forecast asks it.
func (e evaluator) Forecast(vectors []feature.Vector, out []feature.Forecast) { e(vectors, out) }
