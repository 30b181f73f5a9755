package forest_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/forest"
)

func TestPredictionsEqualLeavesBitForBit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := drawForest(rt)
		e := reference(t, f.Text())
		rows, n := drawRows(rt, f.NumFeatures())
		batch := make([]float64, n)
		f.PredictBatch(rows, n, batch)
		for i := range n {
			row := rows[i*f.NumFeatures() : (i+1)*f.NumFeatures()]
			want := e.PredictSingle(row, 0)
			if got := f.Predict(row); !sameBits(got, want) {
				rt.Fatalf("Predict(%v) = %v, leaves says %v", row, got, want)
			}
			if !sameBits(batch[i], want) {
				rt.Fatalf("PredictBatch row %d %v = %v, leaves says %v", i, row, batch[i], want)
			}
		}
	})
}

// More columns than the flat layout holds, and trees as large as are allowed.
func TestWideAndLargeForestsPredictAsLeavesDoes(t *testing.T) {
	for _, c := range []struct{ trees, leaves, features int }{
		{20, 31, 300}, {1, forest.MaxLeaves, 3}, {5, 300, 23}, {3, 1, 2},
	} {
		f := big(t, c.trees, c.leaves, c.features)
		e := reference(t, f.Text())
		rows, out := randomRows(c.features, 21), make([]float64, 21)
		f.PredictBatch(rows, len(out), out)
		for i := range out {
			row := rows[i*c.features : (i+1)*c.features]
			if want := e.PredictSingle(row, 0); !sameBits(f.Predict(row), want) || !sameBits(out[i], want) {
				t.Fatalf("%+v: row %d: %v alone, %v in a batch, leaves says %v", c, i, f.Predict(row), out[i], want)
			}
		}
	}
}

func TestTextReadsBackAsTheSameForest(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := drawForest(rt)
		g, err := forest.Parse(f.Text())
		if err != nil {
			rt.Fatalf("%v\n%s", err, f.Text())
		}
		if diff := cmp.Diff(f.Text(), g.Text()); diff != "" {
			rt.Fatalf("text changed on the way (-written +read):\n%s", diff)
		}
		if diff := cmp.Diff(f.Header(), g.Header(), cmpopts.EquateNaNs()); diff != "" {
			rt.Fatalf("header changed on the way (-written +read):\n%s", diff)
		}
		if f.Trees() != g.Trees() {
			rt.Fatalf("%d trees written, %d read", f.Trees(), g.Trees())
		}
	})
}

// The sizes in the header are byte offsets to LightGBM, which reads trees in
// parallel by them.
func TestTreeSizesAreTheBytesOfEachTree(t *testing.T) {
	text := big(t, 3, 7, 4).Text()
	start := bytes.Index(text, []byte("Tree=0"))
	end := bytes.Index(text, []byte("end of trees"))
	var a, b, c int
	_, sizes, _ := bytes.Cut(text, []byte("tree_sizes="))
	if _, err := fmt.Sscan(string(sizes[:40]), &a, &b, &c); err != nil {
		t.Fatal(err)
	}
	if a+b+c != end-start {
		t.Errorf("tree_sizes add up to %d, the trees to %d bytes", a+b+c, end-start)
	}
	if !bytes.HasPrefix(text[start+a:], []byte("Tree=1\n")) || !bytes.HasPrefix(text[start+a+b:], []byte("Tree=2\n")) {
		t.Error("tree_sizes do not lead to the trees")
	}
}

func TestMissingValuesGoWhereLightGBMSendsThem(t *testing.T) {
	const left, right = 1.0, 2.0
	nan := math.NaN()
	for _, c := range []struct {
		missing     forest.Missing
		defaultLeft bool
		threshold   float64
		x, want     float64
	}{
		{forest.MissingNone, true, -1, nan, right}, // NaN is compared as 0
		{forest.MissingNone, false, 1, nan, left},
		{forest.MissingNaN, true, -1, nan, left},
		{forest.MissingNaN, false, 1, nan, right},
		{forest.MissingNaN, true, -1, 0, right},
		{forest.MissingZero, true, -1, 0, left},
		{forest.MissingZero, true, -1, nan, left},
		{forest.MissingZero, false, 1, 0, right},
		{forest.MissingZero, false, 1, -1e-35, right},
		{forest.MissingZero, false, 1, 1e-34, left},
		{forest.MissingZero, false, 1, 0.5, left},
		{forest.MissingNaN, false, 1, math.Inf(1), right},
		{forest.MissingNaN, false, 1, math.Inf(-1), left},
	} {
		f, err := forest.New(forest.Header{FeatureNames: []string{"x"}}, []forest.Tree{{
			Splits: []forest.Split{{Threshold: c.threshold, Left: ^0, Right: ^1, Missing: c.missing, DefaultLeft: c.defaultLeft}},
			Leaves: []forest.Leaf{{Value: left}, {Value: right}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Predict([]float64{c.x}); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}

func TestNewRefusesWhatIsNotAForest(t *testing.T) {
	header := forest.Header{FeatureNames: []string{"x", "y"}}
	leaf := []forest.Leaf{{}, {}, {}}
	tree := func(splits ...forest.Split) []forest.Tree { return []forest.Tree{{Splits: splits, Leaves: leaf}} }
	for name, c := range map[string]struct {
		h     forest.Header
		trees []forest.Tree
	}{
		"no trees":          {header, nil},
		"no leaves":         {header, []forest.Tree{{}}},
		"too few splits":    {header, tree(forest.Split{Left: ^0, Right: ^1})},
		"own child":         {header, tree(forest.Split{Left: 0, Right: ^1}, forest.Split{Left: ^0, Right: ^2})},
		"shared leaf":       {header, tree(forest.Split{Left: 1, Right: ^0}, forest.Split{Left: ^0, Right: ^2})},
		"cycle apart":       {header, tree(forest.Split{Left: ^0, Right: ^1}, forest.Split{Left: 1, Right: ^2})},
		"child beyond":      {header, tree(forest.Split{Left: 2, Right: ^0}, forest.Split{Left: ^1, Right: ^2})},
		"leaf beyond":       {header, tree(forest.Split{Left: 1, Right: ^3}, forest.Split{Left: ^1, Right: ^2})},
		"feature beyond":    {header, tree(forest.Split{Left: 1, Right: ^0, Feature: 2}, forest.Split{Left: ^1, Right: ^2})},
		"feature below 0":   {header, tree(forest.Split{Left: 1, Right: ^0, Feature: -1}, forest.Split{Left: ^1, Right: ^2})},
		"threshold NaN":     {header, tree(forest.Split{Left: 1, Right: ^0, Threshold: math.NaN()}, forest.Split{Left: ^1, Right: ^2})},
		"leaf infinite":     {header, []forest.Tree{{Leaves: []forest.Leaf{{Value: math.Inf(1)}}}}},
		"no features":       {forest.Header{}, []forest.Tree{{Leaves: leaf[:1]}}},
		"blank name":        {forest.Header{FeatureNames: []string{"a b"}}, []forest.Tree{{Leaves: leaf[:1]}}},
		"sign 2":            {forest.Header{FeatureNames: []string{"a"}, MonotoneConstraints: []int8{2}}, []forest.Tree{{Leaves: leaf[:1]}}},
		"signs too few":     {forest.Header{FeatureNames: []string{"a", "b"}, MonotoneConstraints: []int8{1}}, []forest.Tree{{Leaves: leaf[:1]}}},
		"range upside down": {forest.Header{FeatureNames: []string{"a"}, Ranges: []forest.Range{{Min: 2, Max: 1}}}, []forest.Tree{{Leaves: leaf[:1]}}},
		"reserved metadata": {forest.Header{FeatureNames: []string{"a"}, Metadata: map[string]string{"num_class": "2"}}, []forest.Tree{{Leaves: leaf[:1]}}},
		"two-line metadata": {forest.Header{FeatureNames: []string{"a"}, Metadata: map[string]string{"k": "1\n2"}}, []forest.Tree{{Leaves: leaf[:1]}}},
	} {
		if _, err := forest.New(c.h, c.trees); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestCheckNamesBothWidths(t *testing.T) {
	f := big(t, 1, 3, 4)
	if err := f.Check(4); err != nil {
		t.Error(err)
	}
	if err := f.Check(5); err == nil {
		t.Error("width 5 accepted by a forest of 4 features")
	}
}

func TestWrongWidthPanics(t *testing.T) {
	f := big(t, 1, 3, 4)
	for name, call := range map[string]func(){
		"short row":   func() { f.Predict(make([]float64, 3)) },
		"long row":    func() { f.Predict(make([]float64, 5)) },
		"short batch": func() { f.PredictBatch(make([]float64, 7), 2, make([]float64, 2)) },
		"short out":   func() { f.PredictBatch(make([]float64, 8), 2, make([]float64, 1)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			call()
		}()
	}
}

func TestPredictionDoesNotAllocate(t *testing.T) {
	f := big(t, 20, 31, 8)
	rows, out := randomRows(8, 100), make([]float64, 100)
	if n := testing.AllocsPerRun(20, func() { out[0] = f.Predict(rows[:8]) }); n != 0 {
		t.Errorf("Predict allocates %v times", n)
	}
	if n := testing.AllocsPerRun(20, func() { f.PredictBatch(rows, 100, out) }); n != 0 {
		t.Errorf("PredictBatch allocates %v times", n)
	}
	rows[50] = 0.1 // no float32
	if n := testing.AllocsPerRun(20, func() { f.PredictBatch(rows, 100, out) }); n != 0 {
		t.Errorf("PredictBatch of float64s allocates %v times", n)
	}
}

// big makes a forest of random trees grown as a trainer grows them: the leaf
// to split is any one of the present.
func big(t testing.TB, trees, leaves, features int) *forest.Forest {
	rng := rand.New(rand.NewPCG(1, 2))
	h := forest.Header{Objective: "regression"}
	for i := range features {
		h.FeatureNames = append(h.FeatureNames, fmt.Sprintf("f%d", i))
	}
	all := make([]forest.Tree, trees)
	for k := range all {
		tree := forest.Tree{Splits: make([]forest.Split, leaves-1)}
		parent := []*int32{nil}
		for i := range tree.Splits {
			at := rng.IntN(len(parent))
			tree.Splits[i] = forest.Split{
				Feature: int32(rng.IntN(features)), Threshold: rng.NormFloat64(), Missing: forest.MissingNaN,
				DefaultLeft: rng.IntN(2) == 0, Left: ^int32(at), Right: ^int32(len(parent)),
			}
			if parent[at] != nil {
				*parent[at] = int32(i)
			}
			parent[at] = &tree.Splits[i].Left
			parent = append(parent, &tree.Splits[i].Right)
		}
		for range parent {
			tree.Leaves = append(tree.Leaves, forest.Leaf{Value: rng.NormFloat64()})
		}
		all[k] = tree
	}
	f, err := forest.New(h, all)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// randomRows are float32s, as vectors are.
func randomRows(width, n int) []float64 {
	rng := rand.New(rand.NewPCG(3, 4))
	rows := make([]float64, width*n)
	for i := range rows {
		rows[i] = float64(float32(rng.NormFloat64()))
	}
	return rows
}

// Beside leaves, one row at a time, which is how leaves takes a batch too.
func BenchmarkPredict(b *testing.B) {
	const width, distinct = 23, 1000
	for _, trees := range []int{100, 200} {
		f := big(b, trees, 31, width)
		e := reference(b, f.Text())
		rows, out := randomRows(width, distinct), make([]float64, distinct)
		for _, n := range []int{1, 3, 16, 100} {
			b.Run(fmt.Sprintf("trees=%d/rows=%d", trees, n), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					at := i % (distinct / n) * n * width
					f.PredictBatch(rows[at:at+n*width], n, out)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/row")
			})
		}
		b.Run(fmt.Sprintf("trees=%d/leaves", trees), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				at := i % distinct * width
				out[0] = e.PredictSingle(rows[at:at+width], 0)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/row")
		})
	}
}
