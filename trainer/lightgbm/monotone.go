package lightgbm

import (
	"fmt"
	"math"

	"github.com/spillway-llm/spillway/internal/forest"
)

// monotoneSlack is by how much a leaf may lie on the wrong side of another:
// far below what anyone notices of a latency, far above what rounding does.
const monotoneSlack = 1e-10

// falls reports the first tree that moves with a feature against its sign.
// Where no tree does, their sum does not. A tree does when two of its leaves do
// that rows reach which differ in that feature alone: leaves on both sides of one
// of its splits, which overlap in all other features.
func falls(f *forest.Forest, signs []int8) error {
	for i := range f.Trees() {
		t := treeWalk{tree: f.Tree(i), signs: signs}
		root := int32(0)
		if len(t.tree.Splits) == 0 {
			root = ^0
		}
		t.walk(root, newRegion(f.NumFeatures()))
		if t.err != nil {
			return fmt.Errorf("tree %d: %w", i, t.err)
		}
	}
	return nil
}

// span is which values of a feature lead to a leaf: above low, up to high, and
// unknown ones.
type span struct {
	low, high float64
	missing   bool
}

// region is the spans of all features that lead to a node.
type region []span

func newRegion(features int) region {
	r := make(region, features)
	for i := range r {
		r[i] = span{math.Inf(-1), math.Inf(1), true}
	}
	return r
}

// meets reports whether rows that differ in the known value of one feature
// alone lead to both.
func (r region) meets(other region, feature int32) bool {
	for i := range r {
		a, b := r[i], other[i]
		if int32(i) == feature {
			if a.low >= a.high || b.low >= b.high {
				return false
			}
		} else if max(a.low, b.low) >= min(a.high, b.high) && !(a.missing && b.missing) {
			return false
		}
	}
	return true
}

// reached is a leaf's value and where it is reached.
type reached struct {
	value float64
	where region
}

// treeWalk looks through one tree.
type treeWalk struct {
	tree  forest.Tree
	signs []int8
	err   error // the first
}

// walk lists the leaves below a node, which is reached in a region.
func (t *treeWalk) walk(node int32, where region) []reached {
	if node < 0 {
		return []reached{{t.tree.Leaves[^node].Value, where}}
	}
	s := &t.tree.Splits[node]
	if s.Missing == forest.MissingZero && t.err == nil {
		t.err = fmt.Errorf("split %d takes zeros for missing values", node)
	}
	below, above := append(region(nil), where...), append(region(nil), where...)
	at := s.Feature
	below[at].high, above[at].low = min(where[at].high, s.Threshold), max(where[at].low, s.Threshold)
	missingLeft := s.DefaultLeft
	if s.Missing == forest.MissingNone {
		missingLeft = 0 <= s.Threshold
	}
	below[at].missing, above[at].missing = where[at].missing && missingLeft, where[at].missing && !missingLeft
	left, right := t.walk(s.Left, below), t.walk(s.Right, above)
	if sign := t.sign(at); sign != 0 && t.err == nil {
		t.err = t.against(node, float64(sign), left, right)
	}
	return append(left, right...)
}

func (t *treeWalk) sign(feature int32) int8 {
	if t.signs == nil {
		return 0
	}
	return t.signs[feature]
}

// against reports leaves of both sides of a split that move against its
// feature's sign.
func (t *treeWalk) against(node int32, sign float64, left, right []reached) error {
	most, least := math.Inf(-1), math.Inf(1)
	for i := range left {
		most = max(most, sign*left[i].value)
	}
	for i := range right {
		least = min(least, sign*right[i].value)
	}
	if most <= least+monotoneSlack {
		return nil // as LightGBM's basic method has it
	}
	feature := t.tree.Splits[node].Feature
	for i := range left {
		for k := range right {
			a, b := &left[i], &right[k]
			if sign*a.value > sign*b.value+monotoneSlack && a.where.meets(b.where, feature) {
				return fmt.Errorf("from %g to %g where feature %d rises, whose sign is %+g", a.value, b.value, feature, sign)
			}
		}
	}
	return nil
}
