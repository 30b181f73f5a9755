package trainer

import (
	"fmt"
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer/baseline"
	"github.com/spillway-llm/spillway/trainer/learn"
)

// contender forecasts the log-residual of every judged row, per target.
type contender [bundle.Targets][]float64

// contenderOf is what a bundle says.
func contenderOf(e *bundle.Evaluator, judge []sample) contender {
	var c contender
	forecasts := make([]feature.Forecast, len(judge))
	e.Evaluate(learn.Vectors(judge), forecasts)
	for target := range bundle.Targets {
		c[target] = make([]float64, len(judge))
	}
	for i, f := range forecasts {
		c[bundle.TTFTP50][i], c[bundle.TTFTP90][i] = f.Residual.TTFT.P50, f.Residual.TTFT.P90
		c[bundle.TPOTP50][i], c[bundle.TPOTP90][i] = f.Residual.TPOT.P50, f.Residual.TPOT.P90
	}
	return c
}

// priorContender is the prior alone. It knows no quantiles, so its p90 is
// moved by the p90 of its error on the learned rows: anything less would be
// too easy to beat.
func priorContender(past, judge []sample) contender {
	var c contender
	for target := range bundle.Targets {
		shift := 0.0
		if learn.Quantiles[target] != 0.5 {
			y := labels(target, past)
			slices.Sort(y)
			shift = evaluate.Quantile(y, learn.Quantiles[target])
		}
		c[target] = slices.Repeat([]float64{shift}, len(judge))
	}
	return c
}

// levelContender says the same latency of every row: the quantile of those that
// were learned from.
func levelContender(past, judge []sample) contender {
	var c contender
	for target := range bundle.Targets {
		y := latencies(target, past)
		slices.Sort(y)
		level := evaluate.Quantile(y, learn.Quantiles[target])
		c[target] = make([]float64, len(judge))
		for i := range judge {
			c[target][i] = level - logPrior(target, &judge[i])
		}
	}
	return c
}

// cartContender is golearn's regression tree on the logarithm of the latency
// itself, from the same vector. Its p90 is moved as the prior's is.
func cartContender(past, judge []sample, seed uint64) (contender, error) {
	var c contender
	for _, pair := range [][2]bundle.Target{{bundle.TTFTP50, bundle.TTFTP90}, {bundle.TPOTP50, bundle.TPOTP90}} {
		target := pair[0]
		y := latencies(target, past)
		c[pair[0]], c[pair[1]] = make([]float64, len(judge)), make([]float64, len(judge))
		if len(y) == 0 { // the prior, then
			continue
		}
		x := make([]float64, 0, len(y)*feature.Width)
		for i := range past {
			if l := past[i].Label(target); l == l {
				x = append(x, wide(&past[i])...)
			}
		}
		tree, err := baseline.Fit(x, feature.Width, y, seed)
		if err != nil {
			return c, fmt.Errorf("fit the baseline of %s: %w", target, err)
		}
		errors := make([]float64, len(y))
		for i := range y {
			errors[i] = y[i] - tree.Predict(x[i*feature.Width:(i+1)*feature.Width])
		}
		slices.Sort(errors)
		shift := evaluate.Quantile(errors, learn.Quantiles[pair[1]])
		for i := range judge {
			residual := tree.Predict(wide(&judge[i])) - logPrior(target, &judge[i])
			c[pair[0]][i], c[pair[1]][i] = residual, residual+shift
		}
	}
	return c, nil
}

func wide(s *sample) []float64 {
	out := make([]float64, feature.Width)
	s.Vector.Wide(out)
	return out
}

// measured counts the samples that have the target.
func measured(target bundle.Target, all []sample) int { return len(labels(target, all)) }

// labels are the known labels of the samples.
func labels(target bundle.Target, all []sample) []float64 {
	var out []float64
	for i := range all {
		if y := all[i].Label(target); y == y {
			out = append(out, y)
		}
	}
	return out
}

func logPrior(target bundle.Target, s *sample) float64 {
	if target == bundle.TTFTP50 || target == bundle.TTFTP90 {
		return math.Log(float64(s.Vector.Prior().TTFT))
	}
	return math.Log(float64(s.Vector.Prior().TPOT))
}

// latencies are the logarithms of what was measured, of the samples that have
// the target.
func latencies(target bundle.Target, all []sample) []float64 {
	var out []float64
	for i := range all {
		if y := all[i].Label(target); y == y {
			out = append(out, y+logPrior(target, &all[i]))
		}
	}
	return out
}

// losses are the pinball losses of one head, NaN for rows without its target.
func losses(target bundle.Target, c contender, judge []sample) []float64 {
	out := make([]float64, len(judge))
	for i := range judge {
		y, f := judge[i].Label(target), c[target][i]
		if f != f { // no forecast: as if the prior had been said
			f = 0
		}
		out[i] = evaluate.Pinball(learn.Quantiles[target], y, f)
	}
	return out
}
