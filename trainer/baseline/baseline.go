// Package baseline fits the simple model that a forest must beat before it is
// served: one regression tree (CART) of golearn.
//
// golearn weighs every possible cut of every feature by a pass over all rows
// of a node, O(n^2), so that it gets at most MaxRows rows, and its features as
// ranks of at most 64 levels: a tree of depth MaxDepth loses next to nothing
// by that, and 2,000 rows of 23 features fit in 0.3 s instead of 3.2. It knows
// no missing values; NaN stands for the feature's median in the fitted rows.
//
// This is the only package that may import golearn, and of golearn only base
// and trees, which need no cgo.
package baseline

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/sjwhitworth/golearn/base"
	"github.com/sjwhitworth/golearn/trees"
)

const (
	// MaxRows is how many rows a tree is fitted to; of more, a sample is drawn.
	MaxRows = 2_000
	// MaxDepth is the largest number of cuts between root and leaf.
	MaxDepth = 4

	levels = 64 // ranks of a feature
)

// Tree is a fitted tree, immutable and safe for concurrent use.
type Tree struct {
	medians []float64 // by feature, for NaN
	nodes   []node    // parents before children; none where one value fits all
	mean    float64   // of the fitted targets
}

// node sends rows whose feature is under cut to side 0, others to side 1.
type node struct {
	feature int
	cut     float64
	child   [2]int // 0 where the side is a leaf
	value   [2]float64
}

// Fit fits a tree to rows of features values each, which stand one after the
// other in x, and their targets y. NaN in x is unknown; infinities in x and
// targets that are not finite are errors. The same arguments give the same
// tree.
func Fit(x []float64, features int, y []float64, seed uint64) (*Tree, error) {
	if features < 1 || len(y) == 0 || len(x) != features*len(y) {
		return nil, fmt.Errorf("fit baseline: %d values for %d rows of %d features", len(x), len(y), features)
	}
	for i, v := range y {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("fit baseline: row %d: target is %v, want a finite number", i, v)
		}
	}
	for i, v := range x {
		if math.IsInf(v, 0) {
			return nil, fmt.Errorf("fit baseline: row %d: feature %d is infinite", i/features, i%features)
		}
	}
	rows := sample(len(y), seed)
	t := &Tree{medians: make([]float64, features)}
	scales := make([]scale, features)
	for f := range scales {
		scales[f] = newScale(x, features, f, rows)
		t.medians[f] = scales[f].median
	}
	for _, r := range rows {
		t.mean += y[r] / float64(len(rows))
	}
	grid, err := ranks(x, features, y, rows, scales)
	if err != nil {
		return nil, fmt.Errorf("fit baseline: %w", err)
	}
	cart := trees.NewDecisionTreeRegressor(trees.MSE, MaxDepth)
	if err := cart.Fit(grid); err != nil {
		return nil, fmt.Errorf("fit baseline: %w", err)
	}
	t.take(cart, scales)
	return t, nil
}

// Predict returns the prediction for one row. It panics when the row has
// another width than those fitted.
func (t *Tree) Predict(row []float64) float64 {
	if len(row) != len(t.medians) {
		panic(fmt.Sprintf("baseline: row of %d values, want %d", len(row), len(t.medians)))
	}
	if len(t.nodes) == 0 {
		return t.mean
	}
	for at := 0; ; {
		n := &t.nodes[at]
		v := row[n.feature]
		if math.IsNaN(v) {
			v = t.medians[n.feature]
		}
		side := 0
		if v >= n.cut {
			side = 1
		}
		if n.child[side] == 0 {
			return n.value[side]
		}
		at = n.child[side]
	}
}

// sample returns at most MaxRows of n rows in ascending order.
func sample(n int, seed uint64) []int {
	rows := rand.New(rand.NewPCG(seed, 0)).Perm(n)
	rows = rows[:min(n, MaxRows)]
	slices.Sort(rows)
	return rows
}

// scale turns the values of one feature into ranks: value v has the rank of
// the last edge not above it.
type scale struct {
	edges  []float64
	median float64 // 0 where no value is known
}

func newScale(x []float64, features, f int, rows []int) scale {
	var known []float64
	for _, r := range rows {
		if v := x[r*features+f]; !math.IsNaN(v) {
			known = append(known, v)
		}
	}
	if len(known) == 0 {
		return scale{edges: []float64{0}}
	}
	slices.Sort(known)
	s := scale{median: known[len(known)/2]}
	distinct := slices.Compact(slices.Clone(known))
	if len(distinct) > levels {
		distinct = distinct[:0]
		for i := range levels {
			distinct = append(distinct, known[i*len(known)/levels])
		}
		distinct = slices.Compact(distinct)
	}
	s.edges = distinct
	return s
}

func (s *scale) rank(v float64) float64 {
	if math.IsNaN(v) {
		v = s.median
	}
	return float64(max(0, sort.Search(len(s.edges), func(i int) bool { return s.edges[i] > v })-1))
}

// cut returns the value that parts the ranks under threshold from the others.
func (s *scale) cut(threshold float64) float64 {
	return s.edges[min(int(math.Ceil(threshold)), len(s.edges)-1)]
}

// ranks puts the rows into golearn's form.
func ranks(x []float64, features int, y []float64, rows []int, scales []scale) (base.FixedDataGrid, error) {
	grid := base.NewDenseInstances()
	specs := make([]base.AttributeSpec, features+1)
	for f := range specs {
		specs[f] = grid.AddAttribute(base.NewFloatAttribute(fmt.Sprintf("f%d", f)))
	}
	target := specs[features]
	if err := grid.AddClassAttribute(target.GetAttribute()); err != nil {
		return nil, err
	}
	if err := grid.Extend(len(rows)); err != nil {
		return nil, err
	}
	for i, r := range rows {
		for f := range scales {
			grid.Set(specs[f], i, base.PackFloatToBytes(scales[f].rank(x[r*features+f])))
		}
		grid.Set(target, i, base.PackFloatToBytes(y[r]))
	}
	if _, n := grid.Size(); n != len(rows) {
		return nil, errors.New("golearn lost rows")
	}
	return grid, nil
}

// take copies golearn's tree, with cuts in place of ranks. golearn hides the
// type of its nodes, but not their fields.
func (t *Tree) take(cart *trees.CARTDecisionTreeRegressor, scales []scale) {
	root := cart.RootNode
	if root.Left == nil && root.Right == nil && root.Threshold == 0 {
		return // golearn found no cut: between ranks it would lie above 0
	}
	queue := listOf(root)
	for at := 0; at < len(queue); at++ {
		n := queue[at]
		out := node{
			feature: int(n.Feature), cut: scales[n.Feature].cut(n.Threshold),
			value: [2]float64{n.LeftPred, n.RightPred},
		}
		if n.Left != nil {
			out.child[0] = len(queue)
			queue = append(queue, n.Left)
		}
		if n.Right != nil {
			out.child[1] = len(queue)
			queue = append(queue, n.Right)
		}
		t.nodes = append(t.nodes, out)
	}
}

// listOf names a list of a type that can't be named here.
func listOf[T any](v T) []T { return []T{v} }
