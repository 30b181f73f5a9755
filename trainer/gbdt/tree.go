package gbdt

import "github.com/spillway-llm/spillway/internal/forest"

// grownTree is a tree over bin codes, before shrinkage.
type grownTree struct {
	splits []grownSplit
	leaves []grownLeaf
	rootH  float64 // weight of all rows
}

type grownSplit struct {
	candidate
	child      [2]int32 // left and right: a split, or ^leaf
	begin, end int      // of its rows in grower.rows
	sums       sums
	value      float64 // as a leaf
}

type grownLeaf struct {
	begin, end int // of its rows in grower.rows
	parent     int // split it hangs from, -1 at the root
	side       int // 0 left, 1 right
	sums       sums
	value      float64
}

// split replaces leaf at by a split; its rows up to mid go left.
func (t *grownTree) split(at, mid int, best *candidate) {
	old := t.leaves[at]
	self, right := len(t.splits), len(t.leaves)
	t.splits = append(t.splits, grownSplit{
		candidate: *best, child: [2]int32{^int32(at), ^int32(right)},
		begin: old.begin, end: old.end, sums: old.sums, value: old.value,
	})
	if old.parent >= 0 {
		t.splits[old.parent].child[old.side] = int32(self)
	}
	t.leaves[at] = grownLeaf{begin: old.begin, end: mid, parent: self, side: 0, sums: best.left, value: best.leftValue}
	t.leaves = append(t.leaves, grownLeaf{begin: mid, end: old.end, parent: self, side: 1, sums: best.right, value: best.rightValue})
}

// walk returns the leaf of row r of binned.
func (t *grownTree) walk(binned *Binned, r int) int {
	at := int32(0)
	if len(t.splits) == 0 {
		return 0
	}
	for at >= 0 {
		s := &t.splits[at]
		code := binned.codeOf(s.feature, r)
		if code <= s.bin || s.missingLeft && code == binned.columns[s.feature].missing() {
			at = s.child[0]
		} else {
			at = s.child[1]
		}
	}
	return int(^at)
}

// publish returns the tree over feature values, shrunk.
func (t *grownTree) publish(columns []column, x *fixed, rate float64) forest.Tree {
	out := forest.Tree{
		Splits:    make([]forest.Split, len(t.splits)),
		Leaves:    make([]forest.Leaf, len(t.leaves)),
		Shrinkage: rate,
	}
	for i := range t.splits {
		s := &t.splits[i]
		_, weight := x.floats(s.sums)
		out.Splits[i] = forest.Split{
			Threshold: columns[s.feature].threshold(s.bin), Feature: int32(s.feature),
			Left: s.child[0], Right: s.child[1],
			Missing: forest.MissingNaN, DefaultLeft: s.missingLeft,
			Gain: s.gain, Value: rate * s.value, Weight: weight, Count: int64(s.end - s.begin),
		}
	}
	for i := range t.leaves {
		l := &t.leaves[i]
		_, weight := x.floats(l.sums)
		out.Leaves[i] = forest.Leaf{Value: rate * l.value, Weight: weight, Count: int64(l.end - l.begin)}
	}
	return out
}
