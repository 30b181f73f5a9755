package gbdt_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/dmitryikh/leaves"

	"github.com/spillway-llm/spillway/internal/forest"
	"github.com/spillway-llm/spillway/trainer/gbdt"
)

var columns = []string{"prompt", "waiting", "running", "noise"}

// synthetic has rows shaped like the domain: a steep and a kinked effect, an
// interaction, values missing that matter, noise that grows, and a column
// that says nothing. The noise-free target stands beside.
func synthetic(n int, seed uint64) (d gbdt.Data, clean []float64) {
	rng := rand.New(rand.NewPCG(seed, 9))
	d.FeatureNames = columns
	for range n {
		prompt, waiting, running, noise := rng.ExpFloat64(), float64(rng.IntN(6)), rng.Float64(), rng.NormFloat64()
		own := math.Log1p(3 * prompt)
		if rng.IntN(10) == 0 {
			prompt, own = math.NaN(), 2.5
		}
		y := own + 0.3*max(0, waiting-2)*running + 0.2*waiting
		clean = append(clean, y)
		d.X = append(d.X, prompt, waiting, running, noise)
		d.Y = append(d.Y, y+0.1*(1+running)*rng.NormFloat64())
	}
	return d, clean
}

func train(t testing.TB, d gbdt.Data, o gbdt.Options) *forest.Forest {
	t.Helper()
	f, err := gbdt.Train(t.Context(), d, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func predict(f *forest.Forest, d gbdt.Data) []float64 {
	out := make([]float64, len(d.X)/f.NumFeatures())
	f.PredictBatch(d.X, len(out), out)
	return out
}

func rmse(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += (a[i] - b[i]) * (a[i] - b[i])
	}
	return math.Sqrt(sum / float64(len(a)))
}

// loss is what o.Objective lowers.
func loss(o gbdt.Options, predictions, y []float64) float64 {
	if o.Objective == gbdt.SquaredError {
		return rmse(predictions, y)
	}
	sum := 0.0
	for i, p := range predictions {
		sum += max(o.Alpha*(y[i]-p), (1-o.Alpha)*(p-y[i]))
	}
	return sum / float64(len(y))
}

func quantile(alpha float64) gbdt.Options {
	o := gbdt.Defaults()
	o.Objective, o.Alpha = gbdt.Quantile, alpha
	return o
}

func TestLearnsAKnownFunction(t *testing.T) {
	d, _ := synthetic(6000, 1)
	held, clean := synthetic(2000, 2)
	f := train(t, d, gbdt.Defaults())
	// The deviation of the target is about 0.9, of its noise 0.15.
	if got := rmse(predict(f, held), clean); got > 0.08 {
		t.Errorf("held-out error against the noise-free target %.3f, want under 0.08", got)
	}
	if h := f.Header(); h.Objective != "regression" || h.Ranges[1] != (forest.Range{Min: 0, Max: 5}) {
		t.Errorf("header %+v", h)
	}
}

func TestQuantilesCoverHeldOutRows(t *testing.T) {
	d, _ := synthetic(8000, 1)
	held, _ := synthetic(8000, 2)
	for _, alpha := range []float64{0.1, 0.5, 0.9} {
		f := train(t, d, quantile(alpha))
		below := 0
		for i, p := range predict(f, held) {
			if held.Y[i] <= p {
				below++
			}
		}
		if got := float64(below) / float64(len(held.Y)); math.Abs(got-alpha) > 0.03 {
			t.Errorf("quantile %v covers %.3f of held-out rows", alpha, got)
		}
		if h := f.Header(); h.Objective != "quantile" || h.Metadata["alpha"] != fmt.Sprint(alpha) {
			t.Errorf("header %+v", h)
		}
	}
}

func TestLeavesLoadsWhatIsTrained(t *testing.T) {
	d, _ := synthetic(2000, 3)
	for _, o := range []gbdt.Options{gbdt.Defaults(), quantile(0.9)} {
		o.Trees = 20
		o.MonotoneSigns = []int8{1, 1, 0, 0}
		f := train(t, d, o)
		e, err := leaves.LGEnsembleFromReader(bufio.NewReader(bytes.NewReader(f.Text())), false)
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range predict(f, d) {
			row := d.X[i*len(columns) : (i+1)*len(columns)]
			if want := e.PredictSingle(row, 0); got != want {
				t.Fatalf("row %v: %v, leaves says %v", row, got, want)
			}
		}
	}
}

func TestSideOfMissingValuesIsLearned(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, high := range []bool{false, true} {
		d := gbdt.Data{FeatureNames: []string{"x"}}
		for range 2000 {
			x := rng.Float64()
			y := 0.0
			if x > 0.5 {
				y = 1
			}
			if rng.IntN(5) == 0 {
				x, y = math.NaN(), 0
				if high {
					y = 1
				}
			}
			d.X, d.Y = append(d.X, x), append(d.Y, y)
		}
		f := train(t, d, gbdt.Defaults())
		want := 0.0
		if high {
			want = 1
		}
		if got := f.Predict([]float64{math.NaN()}); math.Abs(got-want) > 0.05 {
			t.Errorf("missing values that go with %v are predicted %v", want, got)
		}
	}
}

// Missing alone may tell everything, where known values tell nothing.
func TestMissingAgainstKnownIsASplit(t *testing.T) {
	d := gbdt.Data{FeatureNames: []string{"x"}}
	for i := range 400 {
		x, y := float64(i%7), 1.0
		if i%4 == 0 {
			x, y = math.NaN(), 5
		}
		d.X, d.Y = append(d.X, x), append(d.Y, y)
	}
	f := train(t, d, gbdt.Defaults())
	if a, b := f.Predict([]float64{3}), f.Predict([]float64{math.NaN()}); math.Abs(a-1) > 0.05 || math.Abs(b-5) > 0.05 {
		t.Errorf("known %v, missing %v, want 1 and 5", a, b)
	}
}

func TestSameBytesOnAnyNumberOfThreads(t *testing.T) {
	d, _ := synthetic(10_000, 4) // enough to share out the rows of a split
	for i := range d.Y {
		d.Weights = append(d.Weights, 1+float64(i)/4000)
	}
	later, _ := synthetic(9000, 5)
	for name, o := range map[string]gbdt.Options{"squared": gbdt.Defaults(), "quantile": quantile(0.9)} {
		o.Trees, o.RowFraction, o.FeatureFraction, o.Seed = 6, 0.8, 0.75, 7
		o.MonotoneSigns = []int8{1, 0, 0, -1}
		o.Validation, o.EarlyStoppingRounds = &later, 10
		var first []byte
		for _, threads := range []int{1, 2, 5} {
			func() {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
				o.Threads = threads
				text := train(t, d, o).Text()
				if first == nil {
					first = text
				}
				if !bytes.Equal(text, first) {
					t.Errorf("%s: other bytes with %d threads", name, threads)
				}
			}()
		}
		o.Seed++
		if bytes.Equal(train(t, d, o).Text(), first) {
			t.Errorf("%s: another seed draws the same rows", name)
		}
	}
}

func TestWeightTwoIsTheRowTwice(t *testing.T) {
	d, _ := synthetic(1500, 6)
	held, _ := synthetic(500, 7)
	twice := gbdt.Data{FeatureNames: d.FeatureNames}
	for i := range d.Y {
		heavy := i%3 == 0
		if heavy {
			d.Y[i]++ // so that their weight shows
		}
		row, y := d.X[i*len(columns):(i+1)*len(columns)], d.Y[i]
		twice.X, twice.Y = append(twice.X, row...), append(twice.Y, y)
		d.Weights = append(d.Weights, 1)
		if heavy {
			twice.X, twice.Y = append(twice.X, row...), append(twice.Y, y)
			d.Weights[i] = 2
		}
	}
	for name, o := range map[string]gbdt.Options{"squared": gbdt.Defaults(), "quantile": quantile(0.5)} {
		// Rows are counted, not weighed, for MinLeafRows, and bins by rows:
		// the two forests are near, not equal.
		o.Trees, o.MinLeafRows = 30, 1
		unweighted := d
		unweighted.Weights = nil
		a, b, c := predict(train(t, d, o), held), predict(train(t, twice, o), held), predict(train(t, unweighted, o), held)
		if rmse(a, b) > 0.6*rmse(a, c) {
			t.Errorf("%s: weighing is %.4f from doubling and %.4f from doing nothing", name, rmse(a, b), rmse(a, c))
		}
	}
}

func TestHeavyWeightDecides(t *testing.T) {
	d := gbdt.Data{FeatureNames: []string{"x"}, X: []float64{0, 0, 0, 0}, Y: []float64{1, 1, 1, 9}, Weights: []float64{1, 1, 1, 1e6}}
	for _, o := range []gbdt.Options{gbdt.Defaults(), quantile(0.5)} {
		if got := train(t, d, o).Predict([]float64{0}); math.Abs(got-9) > 0.01 {
			t.Errorf("prediction %v, want the heavy row's 9", got)
		}
	}
}

func TestNothingToSplitGivesOneLeaf(t *testing.T) {
	constant := gbdt.Data{FeatureNames: []string{"x"}}
	for i := range 500 {
		constant.X, constant.Y = append(constant.X, float64(i)), append(constant.Y, 0.1)
	}
	for name, d := range map[string]gbdt.Data{
		"constant target":  constant,
		"constant feature": {FeatureNames: []string{"x"}, X: make([]float64, 500), Y: constant.Y},
		"one row":          {FeatureNames: []string{"x"}, X: []float64{3}, Y: []float64{0.1}},
		"all missing":      {FeatureNames: []string{"x"}, X: []float64{math.NaN(), math.NaN()}, Y: []float64{0.1, 0.1}},
	} {
		for _, o := range []gbdt.Options{gbdt.Defaults(), quantile(0.9)} {
			o.L2, o.MinLeafRows = 0, 1
			f := train(t, d, o)
			if got := f.Predict([]float64{7}); got != 0.1 || f.Trees() != 1 || !strings.Contains(string(f.Text()), "num_leaves=1\n") {
				t.Errorf("%s: %d trees predict %v, want one leaf of 0.1", name, f.Trees(), got)
			}
		}
	}
}

func TestValidationStopsAtTheBestTree(t *testing.T) {
	d, _ := synthetic(300, 8)
	later, _ := synthetic(300, 9)
	for _, o := range []gbdt.Options{gbdt.Defaults(), quantile(0.9)} {
		o.Trees, o.LearningRate, o.MinLeafRows = 400, 0.3, 2
		all := train(t, d, o)
		o.Validation, o.EarlyStoppingRounds = &later, 20
		stopped := train(t, d, o)
		if stopped.Trees() >= all.Trees() {
			t.Errorf("kept %d of %d trees on data that overfits", stopped.Trees(), all.Trees())
		}
		if !bytes.HasPrefix(all.Text()[bytes.Index(all.Text(), []byte("Tree=0")):], firstTrees(stopped)) {
			t.Error("the trees kept are not the first ones")
		}
		o.Validation, o.EarlyStoppingRounds = nil, 0
		best := loss(o, predict(stopped, later), later.Y)
		for _, trees := range []int{stopped.Trees() - 1, stopped.Trees() + 1} {
			o.Trees = trees
			if got := loss(o, predict(train(t, d, o), later), later.Y); got < best {
				t.Errorf("loss %v with %d trees, but %v with the %d kept", got, trees, best, stopped.Trees())
			}
		}
	}
}

// firstTrees is the text of all trees without header and end.
func firstTrees(f *forest.Forest) []byte {
	text := f.Text()
	return bytes.TrimSuffix(text[bytes.Index(text, []byte("Tree=0")):], []byte("end of trees\n"))
}

func TestTrainingEndsWithItsContext(t *testing.T) {
	d, _ := synthetic(500, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := gbdt.Train(ctx, d, gbdt.Defaults()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestBadDataAndOptionsAreNamed(t *testing.T) {
	good, _ := synthetic(50, 1)
	for want, change := range map[string]func(*gbdt.Data, *gbdt.Options){
		"Alpha":                     func(_ *gbdt.Data, o *gbdt.Options) { o.Objective, o.Alpha = gbdt.Quantile, 1 },
		"objective 7":               func(_ *gbdt.Data, o *gbdt.Options) { o.Objective = 7 },
		"Trees is 0":                func(_ *gbdt.Data, o *gbdt.Options) { o.Trees = 0 },
		"Leaves is 1":               func(_ *gbdt.Data, o *gbdt.Options) { o.Leaves = 1 },
		"LearningRate":              func(_ *gbdt.Data, o *gbdt.Options) { o.LearningRate = 0 },
		"L2":                        func(_ *gbdt.Data, o *gbdt.Options) { o.L2 = math.NaN() },
		"MinLeafRows":               func(_ *gbdt.Data, o *gbdt.Options) { o.MinLeafRows = 0 },
		"MinGain":                   func(_ *gbdt.Data, o *gbdt.Options) { o.MinGain = -1 },
		"Bins is 256":               func(_ *gbdt.Data, o *gbdt.Options) { o.Bins = 256 },
		"RowFraction":               func(_ *gbdt.Data, o *gbdt.Options) { o.RowFraction = 1.5 },
		"FeatureFraction":           func(_ *gbdt.Data, o *gbdt.Options) { o.FeatureFraction = 0 },
		"Threads":                   func(_ *gbdt.Data, o *gbdt.Options) { o.Threads = 0 },
		"1 signs for 4":             func(_ *gbdt.Data, o *gbdt.Options) { o.MonotoneSigns = []int8{1} },
		"feature 2 is 3":            func(_ *gbdt.Data, o *gbdt.Options) { o.MonotoneSigns = []int8{0, 0, 3, 0} },
		"EarlyStoppingRounds with":  func(_ *gbdt.Data, o *gbdt.Options) { o.EarlyStoppingRounds = 3 },
		"EarlyStoppingRounds is 0":  func(d *gbdt.Data, o *gbdt.Options) { o.Validation = d },
		"MinLeafRows is -":          func(_ *gbdt.Data, o *gbdt.Options) { o.MinLeafRows = -1 },
		"0 features":                func(d *gbdt.Data, _ *gbdt.Options) { d.FeatureNames = nil },
		`"a b" is empty or holds`:   func(d *gbdt.Data, _ *gbdt.Options) { d.FeatureNames = []string{"a b", "c", "d", "e"} },
		"0 rows":                    func(d *gbdt.Data, _ *gbdt.Options) { d.X, d.Y = nil, nil },
		"199 values":                func(d *gbdt.Data, _ *gbdt.Options) { d.X = d.X[1:] },
		"weights for 50":            func(d *gbdt.Data, _ *gbdt.Options) { d.Weights = []float64{1} },
		"row 2: feature running":    func(d *gbdt.Data, _ *gbdt.Options) { d.X[10] = math.Inf(1) },
		"row 3: target is NaN":      func(d *gbdt.Data, _ *gbdt.Options) { d.Y[3] = math.NaN() },
		"row 1: weight is 0":        func(d *gbdt.Data, _ *gbdt.Options) { d.Weights = make([]float64, 50); d.Weights[0] = 1 },
		"other features than train": func(d *gbdt.Data, o *gbdt.Options) { o.Validation, o.EarlyStoppingRounds = &gbdt.Data{}, 1 },
	} {
		d, o := good, gbdt.Defaults()
		d.X, d.Y = append([]float64(nil), good.X...), append([]float64(nil), good.Y...)
		change(&d, &o)
		if _, err := gbdt.Train(t.Context(), d, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func BenchmarkTrain(b *testing.B) {
	for _, n := range []int{5_000, 50_000} {
		rng := rand.New(rand.NewPCG(1, 1))
		d := gbdt.Data{}
		for f := range 12 {
			d.FeatureNames = append(d.FeatureNames, fmt.Sprintf("f%d", f))
		}
		for range n {
			y := 0.0
			for f := range 12 {
				x := rng.ExpFloat64()
				d.X = append(d.X, x)
				y += math.Log1p(float64(f) * x)
			}
			d.Y = append(d.Y, y+0.25*rng.NormFloat64())
		}
		for name, o := range map[string]gbdt.Options{"squared": gbdt.Defaults(), "p90": quantile(0.9)} {
			b.Run(fmt.Sprintf("%s/rows=%d", name, n), func(b *testing.B) {
				for b.Loop() {
					train(b, d, o)
				}
			})
		}
	}
}
