package lightgbm

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/forest"
)

const (
	drawnFeatures = 3
	drawnCuts     = 3 // thresholds 0, 1, 2
)

// drawTree draws a tree of few leaves with few thresholds and values, so that
// splits repeat, contradict each other, and leaves agree by chance.
func drawTree(t *rapid.T) forest.Tree {
	tree := forest.Tree{Leaves: []forest.Leaf{{}}}
	at := []*int32{nil} // what points at each leaf
	splits := rapid.IntRange(0, 6).Draw(t, "splits")
	tree.Splits = make([]forest.Split, splits)
	for i := range tree.Splits {
		leaf := rapid.IntRange(0, len(at)-1).Draw(t, "leaf")
		tree.Splits[i] = forest.Split{
			Feature: int32(rapid.IntRange(0, drawnFeatures-1).Draw(t, "feature")), Threshold: float64(rapid.IntRange(0, drawnCuts-1).Draw(t, "cut")),
			Missing:     rapid.SampledFrom([]forest.Missing{forest.MissingNone, forest.MissingNaN}).Draw(t, "missing"),
			DefaultLeft: rapid.Bool().Draw(t, "default"), Left: ^int32(leaf), Right: ^int32(len(at)),
		}
		if at[leaf] != nil {
			*at[leaf] = int32(i)
		}
		at[leaf] = &tree.Splits[i].Left
		at = append(at, &tree.Splits[i].Right)
	}
	tree.Leaves = make([]forest.Leaf, len(at))
	for i := range tree.Leaves {
		tree.Leaves[i].Value = float64(rapid.IntRange(0, 2).Draw(t, "value"))
	}
	return tree
}

// fallsSomewhere tries every row that the thresholds tell apart.
func fallsSomewhere(f *forest.Forest, signs []int8) bool {
	values := []float64{-0.5, 0.5, 1.5, 2.5, math.NaN()}
	row := make([]float64, drawnFeatures)
	for code := range len(values) * len(values) * len(values) {
		for i, c := 0, code; i < drawnFeatures; i, c = i+1, c/len(values) {
			row[i] = values[c%len(values)]
		}
		for i, sign := range signs {
			before := row[i]
			if before != before {
				continue
			}
			low := f.Predict(row)
			row[i]++
			if float64(sign)*(f.Predict(row)-low) < 0 {
				return true
			}
			row[i] = before
		}
	}
	return false
}

func TestFallsFindsWhatARowFinds(t *testing.T) {
	falling, rising := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		f, err := forest.New(forest.Header{FeatureNames: []string{"a", "b", "c"}}, []forest.Tree{drawTree(t)})
		if err != nil {
			t.Fatal(err)
		}
		signs := []int8{1, -1, 0}
		err, found := falls(f, signs), fallsSomewhere(f, signs)
		if found != (err != nil) {
			t.Fatalf("falls says %v, a row that falls was found: %v\n%s", err, found, f.Text())
		}
		if found {
			falling++
		} else {
			rising++
		}
	})
	if falling < 10 || rising < 10 {
		t.Errorf("%d trees fell and %d did not: the test draws too few of one kind", falling, rising)
	}
}

func TestFallsRefusesZerosAsMissing(t *testing.T) {
	f, err := forest.New(forest.Header{FeatureNames: []string{"a"}}, []forest.Tree{{
		Splits: []forest.Split{{Left: ^0, Right: ^1, Missing: forest.MissingZero}}, Leaves: []forest.Leaf{{}, {Value: 1}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if falls(f, []int8{1}) == nil {
		t.Error("a split that takes zeros for missing values passes as monotone")
	}
}
