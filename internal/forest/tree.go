package forest

import (
	"errors"
	"fmt"
	"math"
)

// Missing says which values a split treats as missing and sends to its
// default side. The numbers are LightGBM's.
type Missing uint8

const (
	// MissingNone treats nothing as missing; NaN is compared as 0.
	MissingNone Missing = iota
	// MissingZero treats 0 and NaN as missing.
	MissingZero
	// MissingNaN treats NaN as missing.
	MissingNaN
)

// zeroThreshold is the largest magnitude that LightGBM takes for zero:
// kZeroThreshold, the float32 nearest to 1e-35. (leaves uses the float64 and
// leaves out its negative; values that tell are not found in practice.)
const zeroThreshold = float64(float32(1e-35))

// Split sends rows whose feature is at most Threshold to Left, others to
// Right, and missing ones to the default side.
type Split struct {
	Threshold   float64
	Feature     int32
	Left, Right int32 // index into Splits, or ^index into Leaves
	Missing     Missing
	DefaultLeft bool

	// What training saw; evaluation ignores it.
	Gain   float64 // loss reduction
	Value  float64 // the value this node would have had as a leaf
	Weight float64 // sum of hessians
	Count  int64   // rows
}

// child is the side a row goes to, as an entry of Left and Right.
func (s *Split) child(row []float64) int32 {
	x := row[s.Feature]
	left := x <= s.Threshold
	if x != x || s.Missing == MissingZero && isZero(x) {
		left = s.missingLeft()
	}
	if left {
		return s.Left
	}
	return s.Right
}

// missingLeft tells the side of missing values. Where nothing is missing NaN
// goes with 0.
func (s *Split) missingLeft() bool {
	if s.Missing == MissingNone {
		return 0 <= s.Threshold
	}
	return s.DefaultLeft
}

func isZero(x float64) bool { return x >= -zeroThreshold && x <= zeroThreshold }

// Leaf is one terminal node.
type Leaf struct {
	Value float64

	// What training saw; evaluation ignores it.
	Weight float64 // sum of hessians
	Count  int64   // rows
}

// Tree is one regression tree. Splits[0] is its root; a tree of one leaf has
// no splits. Every other split and every leaf is the child of exactly one
// split.
type Tree struct {
	Splits []Split
	Leaves []Leaf
	// Shrinkage is the learning rate already applied to the values, kept for
	// LightGBM; 0 is written as 1.
	Shrinkage float64
}

// root is the node a walk begins with, as an entry of Left and Right.
func (t *Tree) root() int32 {
	if len(t.Splits) == 0 {
		return ^0
	}
	return 0
}

// check verifies that the tree is a tree, within limits, over features
// [0, features).
func (t *Tree) check(features int) error {
	if len(t.Leaves) == 0 || len(t.Leaves) > MaxLeaves {
		return fmt.Errorf("%d leaves, want 1 to %d", len(t.Leaves), MaxLeaves)
	}
	if len(t.Splits) != len(t.Leaves)-1 {
		return fmt.Errorf("%d splits for %d leaves, want one less", len(t.Splits), len(t.Leaves))
	}
	for i := range t.Leaves {
		if l := &t.Leaves[i]; !finite(l.Value) || !finite(l.Weight) {
			return fmt.Errorf("leaf %d: a number is not finite", i)
		}
	}
	if !finite(t.Shrinkage) {
		return errors.New("shrinkage is not finite")
	}
	for i := range t.Splits {
		s := &t.Splits[i]
		if s.Feature < 0 || int(s.Feature) >= features {
			return fmt.Errorf("split %d: feature %d, want 0 to %d", i, s.Feature, features-1)
		}
		if s.Missing > MissingNaN {
			return fmt.Errorf("split %d: unknown missing type %d", i, s.Missing)
		}
		if !finite(s.Threshold) || !finite(s.Gain) || !finite(s.Value) || !finite(s.Weight) {
			return fmt.Errorf("split %d: a number is not finite", i)
		}
	}
	return t.checkShape()
}

// checkShape verifies that every node but the root has exactly one parent and
// that all hang together: with one parent each, a cycle could only stand
// apart from the root, and then the walk misses it.
func (t *Tree) checkShape() error {
	if len(t.Splits) == 0 {
		return nil
	}
	splitSeen, leafSeen := make([]bool, len(t.Splits)), make([]bool, len(t.Leaves))
	splitSeen[0] = true
	reached := 1
	stack := []int32{0}
	for len(stack) > 0 {
		s := &t.Splits[stack[len(stack)-1]]
		stack = stack[:len(stack)-1]
		for _, child := range [2]int32{s.Left, s.Right} {
			seen, at := splitSeen, int(child)
			if child < 0 {
				seen, at = leafSeen, int(^child)
			}
			if at >= len(seen) {
				return fmt.Errorf("child %d does not exist", child)
			}
			if seen[at] {
				return fmt.Errorf("child %d has two parents or is its own ancestor", child)
			}
			seen[at] = true
			reached++
			if child >= 0 {
				stack = append(stack, child)
			}
		}
	}
	if reached != len(t.Splits)+len(t.Leaves) {
		return errors.New("some nodes do not hang from the root")
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
