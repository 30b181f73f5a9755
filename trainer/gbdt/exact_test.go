package gbdt_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// edges are values where thresholds between neighbours are hard to place.
var edges = []float64{
	math.NaN(), 0, 5e-324, -5e-324, 1, math.Nextafter(1, 2), math.Nextafter(1, 0),
	math.MaxFloat64, -math.MaxFloat64, math.Nextafter(math.MaxFloat64, 0), 1e-300, -2, 3, 3.5,
}

// One full step over one feature with a bin for every value can only give the
// mean of the rows that share the value.
func TestOneFullStepIsTheAnswerOfEachValue(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := gbdt.Data{FeatureNames: []string{"x"}}
		var weights []float64
		for range rapid.IntRange(1, 60).Draw(rt, "rows") {
			d.X = append(d.X, rapid.SampledFrom(edges).Draw(rt, "x"))
			d.Y = append(d.Y, float64(rapid.IntRange(-5, 5).Draw(rt, "y")))
			weights = append(weights, float64(rapid.IntRange(1, 4).Draw(rt, "weight")))
		}
		if rapid.Bool().Draw(rt, "weighted") {
			d.Weights = weights
		}
		o := gbdt.Defaults()
		o.Trees, o.LearningRate, o.L2, o.MinLeafRows, o.Threads = 1, 1, 0, 1, 1
		f := train(t, d, o)
		for _, x := range edges {
			var values, weights []float64
			for i := range d.X {
				if d.X[i] == x || math.IsNaN(d.X[i]) && math.IsNaN(x) {
					values = append(values, d.Y[i])
					weights = append(weights, 1)
					if d.Weights != nil {
						weights[len(weights)-1] = d.Weights[i]
					}
				}
			}
			if len(values) == 0 {
				continue
			}
			if got, want := f.Predict([]float64{x}), mean(values, weights); math.Abs(got-want) > 1e-9 {
				rt.Fatalf("value %v: prediction %v, want the mean %v of its rows %v weighing %v\n%s", x, got, want, values, weights, f.Text())
			}
		}
	})
}

func mean(values, weights []float64) float64 {
	sum, total := 0.0, 0.0
	for i, v := range values {
		sum, total = sum+weights[i]*v, total+weights[i]
	}
	return sum / total
}

// More distinct values than bins: bins hold about the same number of rows,
// and a value as heavy as a bin stands alone.
func TestHeavyValueHasItsOwnBin(t *testing.T) {
	d := gbdt.Data{FeatureNames: []string{"x"}}
	for i := range 4000 {
		x := float64(i)
		if i%2 == 0 {
			x = 1500.5
		}
		d.X, d.Y = append(d.X, x), append(d.Y, 0)
		if x == 1500.5 {
			d.Y[i] = 1
		}
	}
	o := gbdt.Defaults()
	o.Bins = 16
	f := train(t, d, o)
	got := []float64{f.Predict([]float64{1500.5}), f.Predict([]float64{1301}), f.Predict([]float64{1901})}
	if got[0] < 0.8 || got[1] > 0.2 || got[2] > 0.2 {
		t.Errorf("heavy value %v, values around it %v", got[0], got[1:])
	}
}

// Beyond 200,000 rows bins come from a seeded sample; values outside it still
// have a side.
func TestManyRowsAreBinnedFromASample(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	d := gbdt.Data{FeatureNames: []string{"x"}}
	for range 210_000 {
		x := rng.ExpFloat64()
		d.X, d.Y = append(d.X, x), append(d.Y, math.Sqrt(x))
	}
	o := gbdt.Defaults()
	o.Trees, o.LearningRate = 2, 1
	f := train(t, d, o)
	if got := rmse(predict(f, d), d.Y); got > 0.03 {
		t.Errorf("error %.4f, want under 0.03", got)
	}
	if !bytes.Equal(f.Text(), train(t, d, o).Text()) {
		t.Error("the same seed drew another sample")
	}
}
