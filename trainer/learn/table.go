package learn

import (
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// Table is the rows that have the target of one head.
type Table struct {
	X       []float64 // row-major, feature.Width columns
	Y       []float64 // ln(actual/prior)
	Weights []float64 // halves with every half-life of age
}

// TableOf makes the table of a head of samples in order of decision.
func TableOf(target bundle.Target, all []Sample, halfLife time.Duration) Table {
	var t Table
	var newest time.Time
	if len(all) > 0 {
		newest = all[len(all)-1].Decided
	}
	for i := range all {
		y := all[i].Label(target)
		if y != y {
			continue
		}
		var wide [feature.Width]float64
		all[i].Vector.Wide(wide[:])
		t.X = append(t.X, wide[:]...)
		t.Y = append(t.Y, y)
		age := newest.Sub(all[i].Decided).Seconds() / halfLife.Seconds()
		t.Weights = append(t.Weights, max(lightest, math.Exp2(-age)))
	}
	return t
}

// data is rows from to below to, as boosting takes them.
func (t *Table) data(from, to int) gbdt.Data {
	return gbdt.Data{FeatureNames: feature.Names(), X: t.X[from*feature.Width : to*feature.Width], Y: t.Y[from:to], Weights: t.Weights[from:to]}
}
