package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/forest"
	"github.com/spillway-llm/spillway/trainer/gbdt"
)

const (
	stopShare  = 0.2 // of the learned rows, the latest, that decide when to stop
	stopRounds = 20
	fewestTree = 3 // trees at least, however early the fit would stop
	clipShare  = 0.005
)

// quantile of each head.
var quantiles = [bundle.Targets]float64{bundle.TTFTP50: 0.5, bundle.TTFTP90: 0.9, bundle.TPOTP50: 0.5, bundle.TPOTP90: 0.9}

// label is what the head learns of a sample; NaN when the sample has none.
func label(target bundle.Target, s *sample) float64 {
	if target == bundle.TTFTP50 || target == bundle.TTFTP90 {
		return s.ttft
	}
	return s.tpot
}

// table is the rows of one head.
type table struct {
	x      []float64 // row-major, feature.Width columns
	y      []float64
	weight []float64 // halves with every half-life of age
}

// lightest is the least weight of a row: old rows fade, they don't vanish.
const lightest = 1e-3

func tableOf(target bundle.Target, all []sample, halfLife time.Duration) table {
	var t table
	var newest time.Time
	if len(all) > 0 {
		newest = all[len(all)-1].decided
	}
	for i := range all {
		y := label(target, &all[i])
		if y != y {
			continue
		}
		var wide [feature.Width]float64
		all[i].vector.Wide(wide[:])
		t.x = append(t.x, wide[:]...)
		t.y = append(t.y, y)
		age := newest.Sub(all[i].decided).Seconds() / halfLife.Seconds()
		t.weight = append(t.weight, max(lightest, math.Exp2(-age)))
	}
	return t
}

// errUnfitted marks a fit that failed for what it was given, not for the store.
var errUnfitted = errors.New("the fit failed")

// fit makes a bundle of the learned samples; targets that are not learned keep
// the prior. It renews the lease before each head, so that a large window may
// take longer than one lease.
func (t *Trainer) fit(ctx context.Context, c *cycle, learn []sample, learned targets) (*bundle.Bundle, error) {
	b := bundle.Bundle{
		LLM:          c.result.LLM,
		CreatedAt:    c.began.UTC(),
		Seed:         t.config.Seed,
		Window:       bundle.Window{Rows: len(learn), From: learn[0].decided, To: learn[len(learn)-1].decided},
		Coefficients: t.config.coefficients(classes(learn)),
		Support:      bundle.SupportOf(vectors(learn)),
	}
	for target := range bundle.Targets {
		if err := c.lease.Renew(ctx, leaseTime); err != nil {
			return nil, err
		}
		rows := priorStays
		if learned[target] {
			rows = tableOf(target, learn, t.config.HalfLife)
		}
		f, err := t.head(ctx, target, rows)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errUnfitted, target, err)
		}
		low, high := clip(rows.y)
		b.Heads[target] = bundle.Head{Forest: f.Text(), Low: low, High: high}
	}
	made, err := bundle.New(b, vectors(learn))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnfitted, err)
	}
	return made, nil
}

// priorStays is what a head learns from that shall add nothing to the prior.
var priorStays = table{x: make([]float64, feature.Width), y: []float64{0}, weight: []float64{1}}

// head fits one forest: first on the earlier rows, to find out on the later
// ones how many trees help, then that many on all of them.
func (t *Trainer) head(ctx context.Context, target bundle.Target, rows table) (*forest.Forest, error) {
	opts := t.config.Fit
	opts.Objective, opts.Alpha = gbdt.Quantile, quantiles[target]
	opts.Seed = t.config.Seed + uint64(target)
	cut := len(rows.y) - int(stopShare*float64(len(rows.y)))
	if later := len(rows.y) - cut; later >= opts.MinLeafRows && cut >= 2*opts.MinLeafRows {
		stop := opts
		stop.EarlyStoppingRounds = stopRounds
		stop.Validation = &gbdt.Data{FeatureNames: feature.Names(), X: rows.x[cut*feature.Width:], Y: rows.y[cut:], Weights: rows.weight[cut:]}
		f, err := gbdt.Train(ctx, gbdt.Data{FeatureNames: feature.Names(), X: rows.x[:cut*feature.Width], Y: rows.y[:cut], Weights: rows.weight[:cut]}, stop)
		if err != nil {
			return nil, err
		}
		opts.Trees = min(opts.Trees, max(fewestTree, f.Trees()))
	}
	return gbdt.Train(ctx, gbdt.Data{FeatureNames: feature.Names(), X: rows.x, Y: rows.y, Weights: rows.weight}, opts)
}

// clip is the range of residuals seen, its outermost half percents left out.
func clip(y []float64) (low, high float64) {
	sorted := slices.Clone(y)
	slices.Sort(sorted)
	low, high = quantile(sorted, clipShare), quantile(sorted, 1-clipShare)
	low, high = max(low, -bundle.MaxClip), min(high, bundle.MaxClip)
	if low == high { // one value: leave room for rounding
		low, high = low-1e-6, high+1e-6
	}
	return low, high
}

// quantile of sorted values, interpolated.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
