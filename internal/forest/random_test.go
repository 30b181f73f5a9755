package forest_test

import (
	"bufio"
	"bytes"
	"math"
	"testing"

	"github.com/dmitryikh/leaves"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/forest"
)

// corners are numbers where comparisons, zeros and missing values meet.
var corners = []float64{
	0, math.Copysign(0, -1), math.NaN(), 1, -1, 0.1, 1e-40, -1e-40, 2e-35, -2e-35,
	5e-324, math.MaxFloat64, math.Inf(1), math.Inf(-1), 1e300, 1.0 / 3,
	// Around float32s: at them, and the float64s beside them.
	math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 0.5 * math.SmallestNonzeroFloat32,
	tenth, math.Nextafter(tenth, 0), math.Nextafter(tenth, 1), -tenth, math.Nextafter(-tenth, 0), math.Nextafter(-tenth, -1),
}

// tenth is a variable so that it is rounded.
var tenth = float64(float32(0.1))

func drawNumber(t *rapid.T, label string) float64 {
	if rapid.Bool().Draw(t, label+" at a corner") {
		return rapid.SampledFrom(corners).Draw(t, label)
	}
	return rapid.Float64Range(-3, 3).Draw(t, label)
}

func drawFinite(t *rapid.T, label string) float64 {
	if x := drawNumber(t, label); !math.IsNaN(x) && !math.IsInf(x, 0) && math.Abs(x) < 1e301 {
		return x
	}
	return 0.5
}

// drawTree splits random leaves until the tree has enough of them, numbering
// as LightGBM does.
func drawTree(t *rapid.T, features int) forest.Tree {
	leaves := rapid.IntRange(1, 12).Draw(t, "leaves")
	tree := forest.Tree{Shrinkage: 0.1}
	parent := []*int32{nil} // where each leaf hangs
	tree.Splits = make([]forest.Split, leaves-1)
	for i := range tree.Splits {
		at := rapid.IntRange(0, len(parent)-1).Draw(t, "leaf to split")
		s := &tree.Splits[i]
		*s = forest.Split{
			Feature:     int32(rapid.IntRange(0, features-1).Draw(t, "feature")),
			Threshold:   drawFinite(t, "threshold"),
			Missing:     forest.Missing(rapid.IntRange(0, 2).Draw(t, "missing")),
			DefaultLeft: rapid.Bool().Draw(t, "default left"),
			Left:        ^int32(at), Right: ^int32(len(parent)),
			Gain: 1.5, Value: 0.25, Weight: 3, Count: 4,
		}
		if parent[at] != nil {
			*parent[at] = int32(i)
		}
		parent[at] = &s.Left
		parent = append(parent, &s.Right)
	}
	for range parent {
		tree.Leaves = append(tree.Leaves, forest.Leaf{Value: drawFinite(t, "leaf value"), Weight: 2, Count: 1})
	}
	return tree
}

func drawForest(t *rapid.T) *forest.Forest {
	features := rapid.IntRange(1, 5).Draw(t, "features")
	h := forest.Header{
		Objective: rapid.SampledFrom([]string{"", "regression", "quantile"}).Draw(t, "objective"),
		Metadata:  map[string]string{"alpha": "0.9", "empty": ""},
	}
	for i := range features {
		h.FeatureNames = append(h.FeatureNames, string(rune('a'+i)))
		h.MonotoneConstraints = append(h.MonotoneConstraints, int8(i%3-1))
		h.Ranges = append(h.Ranges, forest.Range{Min: -float64(i), Max: 1e-7})
	}
	trees := make([]forest.Tree, rapid.IntRange(1, 9).Draw(t, "trees"))
	for i := range trees {
		trees[i] = drawTree(t, features)
	}
	f, err := forest.New(h, trees)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func drawRows(t *rapid.T, width int) (rows []float64, n int) {
	n = rapid.SampledFrom([]int{0, 1, 3, 7, 8, 9, 16, 21, 130, 150}).Draw(t, "rows")
	distinct := rapid.IntRange(1, 12).Draw(t, "distinct rows")
	pool := make([]float64, distinct*width)
	short := rapid.Bool().Draw(t, "float32s")
	for i := range pool {
		pool[i] = drawNumber(t, "value")
		if short {
			pool[i] = float64(float32(pool[i]))
		}
	}
	for i := range n {
		k := i % distinct * width
		rows = append(rows, pool[k:k+width]...)
	}
	return rows, n
}

// reference loads text with leaves, without output transformation.
func reference(t testing.TB, text []byte) *leaves.Ensemble {
	t.Helper()
	e, err := leaves.LGEnsembleFromReader(bufio.NewReader(bytes.NewReader(text)), false)
	if err != nil {
		t.Fatalf("leaves refuses the text: %v\n%s", err, text)
	}
	return e
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
