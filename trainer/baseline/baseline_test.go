package baseline_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/spillway-llm/spillway/trainer/baseline"
)

const features = 23

// rows have two features that matter and many that do not.
func rows(n int, seed uint64) (x, y []float64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for range n {
		row := make([]float64, features)
		for f := range row {
			row[f] = rng.ExpFloat64()
		}
		target := math.Log1p(4*row[3]) + 0.5*row[20]
		if rng.IntN(20) == 0 {
			row[3] = math.NaN()
		}
		x, y = append(x, row...), append(y, target+0.1*rng.NormFloat64())
	}
	return x, y
}

func fit(t testing.TB, x []float64, n int, y []float64) *baseline.Tree {
	t.Helper()
	tree, err := baseline.Fit(x, n, y, 1)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestTreeExplainsMostOfASmoothTarget(t *testing.T) {
	x, y := rows(5000, 1)
	held, want := rows(2000, 2)
	tree := fit(t, x, features, y)
	var mean, own, plain float64
	for _, v := range y {
		mean += v / float64(len(y))
	}
	for i, v := range want {
		d := tree.Predict(held[i*features:(i+1)*features]) - v
		own, plain = own+d*d, plain+(mean-v)*(mean-v)
	}
	if r2 := 1 - own/plain; r2 < 0.7 {
		t.Errorf("explains %.2f of the held-out variance, want over 0.7", r2)
	}
}

// A step is found where it is, and its own rows are on the right side of it.
func TestStepIsFoundExactly(t *testing.T) {
	var x, y []float64
	for i := range 50 {
		x, y = append(x, float64(i)/10), append(y, 1)
		if i >= 30 {
			y[i] = 5
		}
	}
	tree := fit(t, x, 1, y)
	for i := range x {
		if got := tree.Predict(x[i : i+1]); got != y[i] {
			t.Errorf("at %v: %v, want %v", x[i], got, y[i])
		}
	}
}

func TestMissingStandsForTheMedian(t *testing.T) {
	x := []float64{1, 1, 2, 2, 2, 3, 3}
	y := []float64{10, 10, 20, 20, 20, 30, 30}
	tree := fit(t, x, 1, y)
	if got := tree.Predict([]float64{math.NaN()}); got != 20 {
		t.Errorf("missing predicts %v, want that of the median, 20", got)
	}
}

func TestNothingToCutGivesTheMean(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct{ x, y []float64 }{
		"constant target":  {[]float64{-1, 0, 1}, []float64{0.25, 0.25, 0.25}},
		"constant feature": {[]float64{7, 7, 7}, []float64{0, 0.25, 0.5}},
		"all missing":      {[]float64{nan, nan}, []float64{0, 0.5}},
		"one row":          {[]float64{1}, []float64{0.25}},
	} {
		for _, v := range []float64{-5, 0, 5, nan} {
			if got := fit(t, c.x, 1, c.y).Predict([]float64{v}); math.Abs(got-0.25) > 1e-12 {
				t.Errorf("%s: %v predicts %v, want 0.25", name, v, got)
			}
		}
	}
}

func TestSameSeedSameTree(t *testing.T) {
	x, y := rows(4000, 3)
	a, b := fit(t, x, features, y), fit(t, x, features, y)
	other, err := baseline.Fit(x, features, y, 2)
	if err != nil {
		t.Fatal(err)
	}
	differs := false
	for i := range 500 {
		row := x[i*features : (i+1)*features]
		if a.Predict(row) != b.Predict(row) {
			t.Fatal("the same seed gave another tree")
		}
		differs = differs || a.Predict(row) != other.Predict(row)
	}
	if !differs {
		t.Error("another seed drew the same rows")
	}
}

func TestBadRowsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		x, y []float64
		n    int
	}{
		"no rows":         {nil, nil, 1},
		"no features":     {nil, []float64{1}, 0},
		"ragged":          {[]float64{1, 2, 3}, []float64{1, 2}, 2},
		"infinite value":  {[]float64{math.Inf(1)}, []float64{1}, 1},
		"target unknown":  {[]float64{1}, []float64{math.NaN()}, 1},
		"target infinite": {[]float64{1}, []float64{math.Inf(-1)}, 1},
	} {
		if _, err := baseline.Fit(c.x, c.n, c.y, 1); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestWrongWidthPanics(t *testing.T) {
	tree := fit(t, []float64{1, 2}, 1, []float64{1, 2})
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	tree.Predict([]float64{1, 2})
}

func BenchmarkFit(b *testing.B) {
	x, y := rows(2000, 1)
	for b.Loop() {
		fit(b, x, features, y)
	}
}
