package learn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/forest"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// Quantiles are those of the heads, by bundle.Target.
var Quantiles = [bundle.Targets]float64{bundle.TTFTP50: 0.5, bundle.TTFTP90: 0.9, bundle.TPOTP50: 0.5, bundle.TPOTP90: 0.9}

// ErrUnfitted marks a fit that failed for what it was given.
var ErrUnfitted = errors.New("the fit failed")

// Task is one fit.
type Task struct {
	LLM          string
	At           time.Time // creation time of the bundle
	Samples      []Sample  // in order of decision, at least one
	Learned      [bundle.Targets]bool
	Coefficients map[string]physics.Coefficients // of the prior, by endpoint class

	// BeforeHead, when set, runs before each head is fitted; its error ends the
	// fit and is returned as it is.
	BeforeHead func(context.Context) error
}

// Fit makes a bundle of samples. Heads that are not learned keep the prior. An
// error wraps ErrUnfitted, or is that of the context or of BeforeHead.
func Fit(ctx context.Context, task Task, settings Settings) (*bundle.Bundle, error) {
	all := task.Samples
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: no samples", ErrUnfitted)
	}
	b := bundle.Bundle{
		LLM:          task.LLM,
		CreatedAt:    task.At.UTC(),
		Seed:         settings.Seed,
		Window:       bundle.Window{Rows: len(all), From: all[0].Decided, To: all[len(all)-1].Decided},
		Coefficients: task.Coefficients,
		Support:      bundle.SupportOf(Vectors(all)),
	}
	for target := range bundle.Targets {
		if task.BeforeHead != nil {
			if err := task.BeforeHead(ctx); err != nil {
				return nil, err
			}
		}
		rows := priorStays
		if task.Learned[target] {
			rows = TableOf(target, all, settings.HalfLife)
		}
		f, err := head(ctx, target, rows, settings)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrUnfitted, target, err)
		}
		low, high := clip(rows.Y)
		b.Heads[target] = bundle.Head{Forest: f.Text(), Low: low, High: high}
	}
	made, err := bundle.New(b, Vectors(all))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnfitted, err)
	}
	return made, nil
}

// priorStays is what a head learns from that shall add nothing to the prior.
var priorStays = Table{X: make([]float64, feature.Width), Y: []float64{0}, Weights: []float64{1}}

// head fits one forest: first on the earlier rows, to find out on the later
// ones how many trees help, then that many on all of them.
func head(ctx context.Context, target bundle.Target, rows Table, settings Settings) (*forest.Forest, error) {
	opts := settings.Forest
	opts.Objective, opts.Alpha = gbdt.Quantile, Quantiles[target]
	opts.Seed = settings.Seed + uint64(target)
	n := len(rows.Y)
	cut := n - int(stopShare*float64(n))
	if n-cut >= opts.MinLeafRows && cut >= 2*opts.MinLeafRows {
		stop := opts
		stop.EarlyStoppingRounds = stopRounds
		later := rows.data(cut, n)
		stop.Validation = &later
		f, err := gbdt.Train(ctx, rows.data(0, cut), stop)
		if err != nil {
			return nil, err
		}
		opts.Trees = min(opts.Trees, max(fewestTree, f.Trees()))
	}
	return gbdt.Train(ctx, rows.data(0, n), opts)
}

// clip is the range of residuals seen, its outermost half percents left out.
func clip(y []float64) (low, high float64) {
	sorted := slices.Clone(y)
	slices.Sort(sorted)
	low, high = evaluate.Quantile(sorted, clipShare), evaluate.Quantile(sorted, 1-clipShare)
	low, high = max(low, -bundle.MaxClip), min(high, bundle.MaxClip)
	if math.Float64bits(low) == math.Float64bits(high) { // one value: leave room for rounding
		low, high = low-1e-6, high+1e-6
	}
	return low, high
}
