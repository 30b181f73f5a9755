package gbdt_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// Whatever the data say, no sweep along a constrained feature may turn back.
func TestMonotoneConstraintsHoldOnEverySweep(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		features := rapid.IntRange(1, 4).Draw(rt, "features")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		o := gbdt.Defaults()
		if rapid.Bool().Draw(rt, "quantile") {
			o = quantile(rapid.SampledFrom([]float64{0.1, 0.5, 0.9}).Draw(rt, "alpha"))
		}
		o.Trees, o.Threads = rapid.IntRange(1, 12).Draw(rt, "trees"), 1
		o.Leaves = rapid.IntRange(2, 16).Draw(rt, "leaves")
		o.MinLeafRows = rapid.SampledFrom([]int{1, 5, 20}).Draw(rt, "least rows of a leaf")
		o.L2 = rapid.SampledFrom([]float64{0, 1}).Draw(rt, "L2")
		o.LearningRate = rapid.SampledFrom([]float64{0.1, 1}).Draw(rt, "rate")
		o.RowFraction = rapid.SampledFrom([]float64{0.6, 1}).Draw(rt, "share of rows")
		var d gbdt.Data
		for f := range features {
			d.FeatureNames = append(d.FeatureNames, columns[f])
			o.MonotoneSigns = append(o.MonotoneSigns, int8(rapid.IntRange(-1, 1).Draw(rt, "sign")))
		}
		weighted := rapid.Bool().Draw(rt, "weighted")
		for range rapid.IntRange(2, 300).Draw(rt, "rows") {
			y := rng.NormFloat64()
			for f := range features {
				x := math.Round(10*rng.NormFloat64()) / 4
				y += 0.5 * math.Sin(3*x) * float64(f+1)
				if rng.IntN(12) == 0 {
					x = math.NaN()
				}
				d.X = append(d.X, x)
			}
			d.Y = append(d.Y, y)
			if weighted {
				d.Weights = append(d.Weights, rng.ExpFloat64()+1e-9)
			}
		}
		fitted := train(t, d, o)
		for range 20 {
			row := make([]float64, features)
			for f := range row {
				row[f] = 4 * rng.NormFloat64()
				if rng.IntN(6) == 0 {
					row[f] = math.NaN()
				}
			}
			for f, sign := range o.MonotoneSigns {
				if sign == 0 {
					continue
				}
				kept, last := row[f], math.Inf(-1)
				for x := -9.0; x <= 9; x += 0.25 {
					row[f] = x
					p := float64(sign) * fitted.Predict(row)
					if p < last {
						rt.Fatalf("feature %d of sign %d: prediction turns from %v to %v at %v", f, sign, last, p, x)
					}
					last = p
				}
				row[f] = kept
			}
		}
	})
}

// A constraint that is true of the data costs little.
func TestTrueMonotoneConstraintsCostLittle(t *testing.T) {
	d, _ := synthetic(6000, 1)
	held, _ := synthetic(3000, 2)
	free := quantile(0.9)
	bound := free
	bound.MonotoneSigns = []int8{1, 1, 1, 0}
	a, b := loss(free, predict(train(t, d, free), held), held.Y), loss(free, predict(train(t, d, bound), held), held.Y)
	if b > 1.05*a {
		t.Errorf("pinball loss %.4f with the constraints, %.4f without", b, a)
	}
}
