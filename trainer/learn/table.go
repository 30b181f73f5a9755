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

// Table is the rows that have the target of one head.
type Table struct {
	X       []float64 // row-major, feature.Width columns
	Y       []float64 // ln(actual/prior)
	Weights []float64 // see weights
}

// TableOf makes the table of a head of samples in order of decision, with the
// analytic prior of their vectors.
func TableOf(target bundle.Target, all []Sample, halfLife time.Duration) Table {
	return tableOver(target, all, weights(all, halfLife), &physics.Fitted{})
}

// tableOver makes the table of a head over a fitted prior.
func tableOver(target bundle.Target, all []Sample, weights []float64, fitted *physics.Fitted) Table {
	var t Table
	for i := range all {
		y := all[i].over(target, fitted)
		if y != y {
			continue
		}
		var wide [feature.Width]float64
		all[i].Vector.Wide(wide[:])
		t.X = append(t.X, wide[:]...)
		t.Y = append(t.Y, y)
		t.Weights = append(t.Weights, weights[i])
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
// rows that came later.
func weights(all []Sample, halfLife time.Duration) []float64 {
	out := make([]float64, len(all))
	for i := range all {
		age := all[len(all)-1].Decided.Sub(all[i].Decided).Seconds() / halfLife.Seconds()
		later := float64(len(all)-1-i) / (halfShare * float64(len(all)))
		out[i] = max(lightest, math.Exp2(-age-later))
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
func (t *Table) rows() int { return len(t.Y) }

// data is t as boosting takes it, with shift taken from every label.
func (t *Table) data(shift float64) gbdt.Data {
	y := make([]float64, len(t.Y))
	for i := range y {
		y[i] = t.Y[i] - shift
	}
	return gbdt.Data{FeatureNames: feature.Names(), X: t.X, Y: y, Weights: t.Weights}
}
