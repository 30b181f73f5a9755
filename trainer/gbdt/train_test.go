package gbdt_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/forest"
	"github.com/spillway-llm/spillway/trainer/gbdt"
)

func bin(t testing.TB, d gbdt.Data, o gbdt.Options) *gbdt.Binned {
	t.Helper()
	b, err := gbdt.Bin(t.Context(), d.FeatureNames, d.X, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRowsBinnedOnceTrainAsRowsBinnedEachTime(t *testing.T) {
	d, _ := synthetic(3000, 1)
	o := gbdt.Defaults()
	o.Trees = 10
	b := bin(t, d, o)
	for _, o := range []gbdt.Options{o, quantile(0.5), quantile(0.9)} {
		o.Trees = 10
		f, err := b.Train(t.Context(), gbdt.Labels{Y: d.Y}, o)
		if err != nil {
			t.Fatal(err)
		}
		if want := train(t, d, o); !bytes.Equal(f.Text(), want.Text()) {
			t.Errorf("objective %d: another forest from the same rows", o.Objective)
		}
	}
}

// Rows that are not listed count for nothing: neither their targets, which may
// even be unknown, nor the range of their features.
func TestOnlyListedRowsAreTrainedOn(t *testing.T) {
	d, _ := synthetic(2000, 2)
	o := gbdt.Defaults()
	o.Trees = 15
	b := bin(t, d, o)
	var rows []int32
	for r := range 2000 {
		if d.X[r*len(columns)+1] < 4 { // "waiting"
			rows = append(rows, int32(r))
		} else {
			d.Y[r] = math.NaN()
		}
	}
	for _, o := range []gbdt.Options{o, quantile(0.9)} {
		o.Trees, o.RowFraction, o.Seed = 15, 0.9, 3
		first, err := b.Train(t.Context(), gbdt.Labels{Y: d.Y, Rows: rows}, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := first.Header().Ranges[1]; got != (forest.Range{Min: 0, Max: 3}) {
			t.Errorf("range %v of the rows trained on, want 0 to 3", got)
		}
		for r := range d.Y {
			if math.IsNaN(d.Y[r]) {
				d.Y[r] = 1e90
			}
		}
		second, err := b.Train(t.Context(), gbdt.Labels{Y: d.Y, Rows: rows}, o)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Text(), second.Text()) {
			t.Error("targets of rows that are not listed changed the forest")
		}
	}
}

// Rows that are added to binned ones to be judged do what the same rows do as
// Options.Validation.
func TestRowsAddedToJudgeChangeNoBin(t *testing.T) {
	d, _ := synthetic(900, 3)
	for i := 600 * len(columns); i < len(d.X); i++ {
		d.X[i] *= 3 // they lie elsewhere
	}
	early := gbdt.Data{FeatureNames: d.FeatureNames, X: d.X[:600*len(columns)], Y: d.Y[:600]}
	late := gbdt.Data{FeatureNames: d.FeatureNames, X: d.X[600*len(columns):], Y: d.Y[600:]}
	o := quantile(0.9)
	o.Trees, o.EarlyStoppingRounds = 60, 5
	all, err := bin(t, early, o).With(t.Context(), late.X, o)
	if err != nil {
		t.Fatal(err)
	}
	got, err := all.Train(t.Context(), gbdt.Labels{Y: d.Y, Rows: span(0, 600), Held: span(600, 900)}, o)
	if err != nil {
		t.Fatal(err)
	}
	o.Validation = &late
	if want := train(t, early, o); all.Rows() != 900 || !bytes.Equal(got.Text(), want.Text()) {
		t.Errorf("%d rows, another forest of %d trees, want %d", all.Rows(), got.Trees(), want.Trees())
	}
	if _, err := all.With(t.Context(), late.X[:3], o); err == nil {
		t.Error("half a row was added")
	}
}

func TestHeldRowsStopTraining(t *testing.T) {
	d, _ := synthetic(900, 3)
	o := quantile(0.9)
	o.Trees, o.LearningRate, o.MinLeafRows, o.EarlyStoppingRounds = 300, 0.3, 2, 20
	b := bin(t, d, o)
	l := gbdt.Labels{Y: d.Y, Rows: span(0, 600), Held: span(600, 900)}
	f, err := b.Train(t.Context(), l, o)
	if err != nil {
		t.Fatal(err)
	}
	if f.Trees() >= 100 {
		t.Errorf("kept %d trees on data that overfits", f.Trees())
	}
	held := gbdt.Data{FeatureNames: d.FeatureNames, X: d.X[600*len(columns):], Y: d.Y[600:]}
	best := loss(o, predict(f, held), held.Y)
	o.EarlyStoppingRounds, l.Held = 0, nil
	for _, trees := range []int{f.Trees() - 1, f.Trees() + 1} {
		o.Trees = trees
		other, err := b.Train(t.Context(), l, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := loss(o, predict(other, held), held.Y); got < best {
			t.Errorf("loss %v with %d trees, but %v with the %d kept", got, trees, best, f.Trees())
		}
	}
}

func span(from, to int) []int32 {
	var rows []int32
	for r := from; r < to; r++ {
		rows = append(rows, int32(r))
	}
	return rows
}

func TestBadLabelsAreNamed(t *testing.T) {
	d, _ := synthetic(50, 1)
	b := bin(t, d, gbdt.Defaults())
	for want, change := range map[string]func(*gbdt.Labels, *gbdt.Options){
		"3 targets for 50":     func(l *gbdt.Labels, _ *gbdt.Options) { l.Y = l.Y[:3] },
		"1 weights for 50":     func(l *gbdt.Labels, _ *gbdt.Options) { l.Weights = []float64{1} },
		"no rows to train":     func(l *gbdt.Labels, _ *gbdt.Options) { l.Rows = []int32{} },
		"no rows to judge":     func(l *gbdt.Labels, o *gbdt.Options) { l.Held, o.EarlyStoppingRounds = []int32{}, 1 },
		"row 3 after row 3":    func(l *gbdt.Labels, _ *gbdt.Options) { l.Rows = []int32{3, 3} },
		"row 50 after":         func(l *gbdt.Labels, _ *gbdt.Options) { l.Rows = []int32{3, 50} },
		"row -1 after":         func(l *gbdt.Labels, o *gbdt.Options) { l.Held, o.EarlyStoppingRounds = []int32{-1}, 1 },
		"with 2 held rows":     func(l *gbdt.Labels, _ *gbdt.Options) { l.Held = []int32{1, 2} },
		"is 4 with 0 held":     func(_ *gbdt.Labels, o *gbdt.Options) { o.EarlyStoppingRounds = 4 },
		"beside binned rows":   func(_ *gbdt.Labels, o *gbdt.Options) { o.Validation, o.EarlyStoppingRounds = &d, 4 },
		"row 7: target is NaN": func(l *gbdt.Labels, _ *gbdt.Options) { l.Y[7], l.Rows = math.NaN(), []int32{7} },
		"target is 1e+101":     func(l *gbdt.Labels, _ *gbdt.Options) { l.Y[7] = 1e101 },
		"LearningRate":         func(_ *gbdt.Labels, o *gbdt.Options) { o.LearningRate = 0 },
		"L1":                   func(_ *gbdt.Labels, o *gbdt.Options) { o.L1 = -1 },
	} {
		l, o := gbdt.Labels{Y: append([]float64(nil), d.Y...)}, gbdt.Defaults()
		change(&l, &o)
		if _, err := b.Train(t.Context(), l, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, err := gbdt.Bin(t.Context(), nil, d.X, gbdt.Defaults()); err == nil {
		t.Error("binned rows without features")
	}
	if _, err := gbdt.Bin(t.Context(), []string{"a", "b"}, d.X[:3], gbdt.Defaults()); err == nil {
		t.Error("binned one row and a half")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := gbdt.Bin(ended, d.FeatureNames, d.X, gbdt.Defaults()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestAbsoluteErrorFitsTheMedian(t *testing.T) {
	d, _ := synthetic(4000, 4)
	held, _ := synthetic(4000, 5)
	o := gbdt.Defaults()
	o.Objective = gbdt.AbsoluteError
	f := train(t, d, o)
	below := 0
	for i, p := range predict(f, held) {
		if held.Y[i] <= p {
			below++
		}
	}
	if got := float64(below) / 4000; math.Abs(got-0.5) > 0.03 {
		t.Errorf("%.3f of held-out rows are below the prediction, want a half", got)
	}
	if got := f.Header().Objective; got != "regression_l1" {
		t.Errorf("objective %q", got)
	}
}

// With one split and a full step, a leaf is the mean drawn towards the first
// guess by L1 and L2.
func TestL1TakesFromTheGradientOfALeaf(t *testing.T) {
	d := gbdt.Data{FeatureNames: []string{"x"}, X: []float64{0, 0, 0, 1, 1, 1}, Y: []float64{-3, -3, -3, 3, 3, 3}}
	o := gbdt.Defaults()
	o.Trees, o.LearningRate, o.MinLeafRows, o.L1, o.L2 = 1, 1, 1, 3, 1
	if got, want := train(t, d, o).Predict([]float64{1}), (9.0-3)/(3+1); got != want {
		t.Errorf("leaf %v, want %v", got, want)
	}
	o.L1 = 9
	if got := train(t, d, o); got.Predict([]float64{1}) != 0 {
		t.Errorf("leaf %v where L1 is all of the gradient", got.Predict([]float64{1}))
	}
}

// Training half the trees and then the other half is training all.
func TestTrainingGoesOnFromAForest(t *testing.T) {
	d, _ := synthetic(2000, 6)
	for _, o := range []gbdt.Options{gbdt.Defaults(), quantile(0.9)} {
		o.MonotoneSigns = []int8{1, 1, 0, 0}
		o.Trees = 20
		all := train(t, d, o)
		o.Trees = 10
		half := train(t, d, o)
		read, err := forest.Parse(half.Text())
		if err != nil {
			t.Fatal(err)
		}
		o.Start = read
		both := train(t, d, o)
		if both.Trees() != 20 {
			t.Fatalf("%d trees, want 20", both.Trees())
		}
		for i, want := range predict(all, d) {
			if got := both.Predict(d.X[i*len(columns) : (i+1)*len(columns)]); math.Abs(got-want) > 1e-9 {
				t.Fatalf("row %d: %v, in one go %v", i, got, want)
			}
		}
		if !bytes.Contains(both.Text(), firstTrees(half)) {
			t.Error("the first trees are not those of Start")
		}
	}
}

func TestValidationMayKeepNoneOfTheNewTrees(t *testing.T) {
	d, _ := synthetic(500, 6)
	o := gbdt.Defaults()
	o.Trees, o.MinLeafRows = 30, 5
	start := train(t, d, o)
	noise := gbdt.Data{FeatureNames: d.FeatureNames, X: d.X, Y: make([]float64, 500)}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range noise.Y {
		noise.Y[i] = 10 * rng.NormFloat64()
	}
	o.Start, o.Validation, o.EarlyStoppingRounds = start, &d, 5
	f := train(t, noise, o)
	if f.Trees() != start.Trees() {
		t.Errorf("%d trees, want the %d of Start: noise can only make it worse", f.Trees(), start.Trees())
	}
}

func TestStartMustFit(t *testing.T) {
	d, _ := synthetic(200, 1)
	o := quantile(0.9)
	o.Trees = 3
	start := train(t, d, o)
	for want, change := range map[string]func(*gbdt.Data, *gbdt.Options){
		"other features":       func(d *gbdt.Data, _ *gbdt.Options) { d.FeatureNames = []string{"a", "b", "c", "d"} },
		`for "quantile", want`: func(_ *gbdt.Data, o *gbdt.Options) { o.Objective = gbdt.SquaredError },
		`quantile "0.9"`:       func(_ *gbdt.Data, o *gbdt.Options) { o.Alpha = 0.5 },
		"sign 0 for feature":   func(_ *gbdt.Data, o *gbdt.Options) { o.MonotoneSigns = []int8{1, 0, 0, 0} },
		"in all":               func(_ *gbdt.Data, o *gbdt.Options) { o.Trees, o.Leaves = forest.MaxTrees, 2 },
	} {
		d, o := d, o
		o.Start = start
		change(&d, &o)
		if _, err := gbdt.Train(t.Context(), d, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestImportancesTellSignalFromNoise(t *testing.T) {
	d, _ := synthetic(3000, 7)
	held, _ := synthetic(3000, 8)
	o := gbdt.Defaults()
	o.Trees = 40
	f := train(t, d, o)
	gains := gbdt.Gains(f)
	rises, err := gbdt.Permutations(t.Context(), f, held, o, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range columns[:3] {
		if gains[i] < 10*gains[3] || rises[i] < 20*math.Abs(rises[3]) {
			t.Errorf("%s gains %.3g and permuted costs %.3g; the noise column %.3g and %.3g", name, gains[i], rises[i], gains[3], rises[3])
		}
	}
	again, err := gbdt.Permutations(t.Context(), f, held, o, rand.New(rand.NewPCG(1, 2)))
	if err != nil || again[0] != rises[0] {
		t.Errorf("%v, then %v with the same seed (%v)", rises, again, err)
	}
	held.X = held.X[1:]
	if _, err := gbdt.Permutations(t.Context(), f, held, o, rand.New(rand.NewPCG(1, 2))); err == nil {
		t.Error("permuted rows that are not whole")
	}
}

// The first split of the first tree, where all rows weigh alike and nothing is
// bound, against trying every threshold: the same gain.
func TestFirstSplitIsTheBestOfAll(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		features := rapid.IntRange(1, 9).Draw(rt, "features")
		n := rapid.IntRange(4, 80).Draw(rt, "rows")
		d := gbdt.Data{Y: make([]float64, n), X: make([]float64, n*features)}
		for f := range features {
			d.FeatureNames = append(d.FeatureNames, string(rune('a'+f)))
		}
		for i := range d.X {
			d.X[i] = rapid.SampledFrom([]float64{math.NaN(), -1, 0, 0.5, 2, 3, 7}).Draw(rt, "x")
		}
		if rapid.Bool().Draw(rt, "weighted") {
			d.Weights = make([]float64, n)
		}
		for i := range d.Y {
			d.Y[i] = rapid.Float64Range(-9, 9).Draw(rt, "y")
			if d.Weights != nil {
				d.Weights[i] = rapid.Float64Range(0.1, 4).Draw(rt, "weight")
			}
		}
		o := gbdt.Defaults()
		o.Trees, o.Leaves, o.LearningRate = 1, 2, 1
		o.L1 = rapid.SampledFrom([]float64{0, 2}).Draw(rt, "L1")
		o.MinLeafRows = rapid.IntRange(1, 5).Draw(rt, "least")
		want := bestGain(d, o)
		tree := train(t, d, o).Tree(0)
		got := 0.0
		if len(tree.Splits) > 0 {
			got = tree.Splits[0].Gain
		}
		if math.Abs(got-want) > 1e-6*(1+want) {
			rt.Fatalf("gain %v, want %v", got, want)
		}
	})
}

func bestGain(d gbdt.Data, o gbdt.Options) float64 {
	weight := func(i int) float64 {
		if d.Weights == nil {
			return 1
		}
		return d.Weights[i]
	}
	sum, total := 0.0, 0.0
	for i, y := range d.Y {
		sum, total = sum+weight(i)*y, total+weight(i)
	}
	gain := func(in func(i int) bool) (gain float64, rows int) {
		g, h := 0.0, 0.0
		for i, y := range d.Y {
			if in(i) {
				g, h, rows = g+weight(i)*(sum/total-y), h+weight(i), rows+1
			}
		}
		g = max(math.Abs(g)-o.L1, 0)
		return g * g / (h + o.L2), rows
	}
	all, _ := gain(func(int) bool { return true })
	best, width := 0.0, len(d.FeatureNames)
	for f := range width {
		for _, threshold := range []float64{-1, 0, 0.5, 2, 3, 7} {
			for _, missingLeft := range []bool{false, true} {
				left := func(i int) bool {
					x := d.X[i*width+f]
					return x <= threshold || missingLeft && math.IsNaN(x)
				}
				a, n := gain(left)
				b, m := gain(func(i int) bool { return !left(i) })
				if n >= o.MinLeafRows && m >= o.MinLeafRows {
					best = max(best, a+b-all)
				}
			}
		}
	}
	return best
}

// What a tree needs is kept for the next one, so that garbage does not grow with
// the rows.
func TestTreesAllocateLittle(t *testing.T) {
	d, _ := synthetic(4000, 1)
	o := quantile(0.9)
	o.Threads, o.MonotoneSigns = 1, []int8{1, 1, 0, 0}
	allocs := func(trees int) float64 {
		o.Trees = trees
		return testing.AllocsPerRun(1, func() { train(t, d, o) })
	}
	if per := (allocs(60) - allocs(20)) / 40; per > 250 {
		t.Errorf("%v allocations a tree, want at most 250", per)
	}
}
