package learn

import (
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/physics/fit"
	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// table is those of some samples that have the target of one head.
type table struct {
	at      []int     // which of the samples
	y       []float64 // ln(actual/prior)
	weights []float64 // see weights
}

// tableOver makes the table of a head over a fitted prior. Without weights all
// samples count alike.
func tableOver(target bundle.Target, all []Sample, weights []float64, fitted *physics.Fitted) table {
	var t table
	for i := range all {
		y := all[i].over(target, fitted)
		if y != y {
			continue
		}
		weight := 1.0
		if weights != nil {
			weight = weights[i]
		}
		t.at, t.y, t.weights = append(t.at, i), append(t.y, y), append(t.weights, weight)
	}
	return t
}

// over is ln(actual/fitted prior) of a target; NaN when s has none.
func (s *Sample) over(target bundle.Target, fitted *physics.Fitted) float64 {
	y := s.Label(target)
	if y != y {
		return y
	}
	own, other := s.Vector.Prior(), fitted.Estimate(&s.Vector)
	if target == bundle.TTFTP50 || target == bundle.TTFTP90 {
		return y - math.Log(float64(other.TTFT/own.TTFT))
	}
	return y - math.Log(float64(other.TPOT/own.TPOT))
}

// weights halve with every half-life of age, and with every halfShare of the
// rows that came later. Those that are outdated carry outdatedShare of what the
// others do at most, all together.
func weights(all []Sample, halfLife time.Duration) []float64 {
	out := make([]float64, len(all))
	for i := range all {
		age := all[len(all)-1].Decided.Sub(all[i].Decided).Seconds() / halfLife.Seconds()
		later := float64(len(all)-1-i) / (halfShare * float64(len(all)))
		out[i] = max(lightest, math.Exp2(-age-later))
	}
	var fresh, outdated float64
	for i := range all {
		if all[i].Outdated {
			outdated += out[i]
		} else {
			fresh += out[i]
		}
	}
	if fresh == 0 || outdated <= outdatedShare*fresh {
		return out
	}
	for i := range all {
		if all[i].Outdated {
			out[i] *= outdatedShare * fresh / outdated
		}
	}
	return out
}

// seen is the samples as the fit of a prior takes them.
func seen(all []Sample, weights []float64) []fit.Seen {
	out := make([]fit.Seen, len(all))
	for i := range all {
		own := all[i].Vector.Prior()
		out[i] = fit.Seen{
			Vector: all[i].Vector, Weight: weights[i],
			TTFT: own.TTFT * feature.Seconds(math.Exp(all[i].TTFT)), TPOT: own.TPOT * feature.Seconds(math.Exp(all[i].TPOT)),
		}
	}
	return out
}

// rows is how many t has.
func (t *table) rows() int { return len(t.y) }

// quantile is the weighted q-quantile of the labels.
func (t *table) quantile(q float64) float64 { return weightedQuantile(t.y, t.weights, q) }

// labels are what boosting fits to t, whose samples are the first of n rows,
// with shift taken from every label.
func (t *table) labels(n int, shift float64) gbdt.Labels {
	l := gbdt.Labels{Y: make([]float64, n), Weights: make([]float64, n)}
	l.Rows = t.put(&l, 0, shift)
	return l
}

// put fills in the labels of t, whose samples begin with row from, and returns
// their rows.
func (t *table) put(l *gbdt.Labels, from int, shift float64) []int32 {
	rows := make([]int32, len(t.at))
	for k, i := range t.at {
		l.Y[from+i], l.Weights[from+i], rows[k] = t.y[k]-shift, t.weights[k], int32(from+i)
	}
	return rows
}

// wide is the vectors of the samples one after the other, feature.Width
// columns each.
func wide(all []Sample) []float64 {
	x := make([]float64, len(all)*feature.Width)
	for i := range all {
		all[i].Vector.Wide(x[i*feature.Width : (i+1)*feature.Width])
	}
	return x
}
