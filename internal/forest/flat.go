package forest

import (
	"fmt"
	"math"
)

// node is a split or a leaf laid out for the evaluator: 16 bytes, the right
// child just behind the left one, and a leaf as a split that leads back to
// itself. A walk of any fixed number of steps at least as long as the path
// therefore ends in the right leaf without testing whether it has arrived.
type node struct {
	threshold float64
	left      int32 // index into Forest.nodes
	feature   uint16
	// nanLeft is 1 where NaN goes left. MissingNone compares NaN as 0, so
	// that its side is a constant of the split and needs no other flag.
	nanLeft uint8
	// zeroDefault is 1 where zero goes to the side of NaN against what the
	// threshold says (MissingZero); only Forest.walk looks at it.
	zeroDefault uint8
}

// flatten lays all trees out; total is the number of their leaves.
func (f *Forest) flatten(total int) error {
	size := 2*total - len(f.trees)
	if size > math.MaxInt32 {
		return fmt.Errorf("%d nodes, want at most %d", size, math.MaxInt32)
	}
	f.nodes = make([]node, 0, size)
	f.values = make([]float64, size)
	f.roots = make([]int32, 0, len(f.trees))
	f.depths = make([]int32, 0, len(f.trees))
	var queue []int32 // children of a tree in breadth-first order, as in Split
	for i := range f.trees {
		queue = f.flattenTree(&f.trees[i], queue[:0])
	}
	return nil
}

func (f *Forest) flattenTree(t *Tree, queue []int32) []int32 {
	base := int32(len(f.nodes))
	f.roots = append(f.roots, base)
	root := int32(0)
	if len(t.Splits) == 0 {
		root = ^root
	}
	queue = append(queue, root)
	depth, levelEnd := int32(0), 1
	for at := 0; at < len(queue); at++ {
		if at == levelEnd {
			depth, levelEnd = depth+1, len(queue)
		}
		self := base + int32(at)
		child := queue[at]
		if child < 0 {
			f.nodes = append(f.nodes, node{threshold: math.Inf(1), left: self, nanLeft: 1})
			f.values[self] = t.Leaves[^child].Value
			continue
		}
		s := &t.Splits[child]
		n := flatSplit(s)
		n.left = base + int32(len(queue))
		f.walkZero = f.walkZero || n.zeroDefault != 0
		f.nodes = append(f.nodes, n)
		queue = append(queue, s.Left, s.Right)
	}
	f.depths = append(f.depths, depth)
	return queue
}

func flatSplit(s *Split) node {
	n := node{threshold: s.Threshold, feature: uint16(s.Feature)}
	nanLeft := s.DefaultLeft
	switch s.Missing {
	case MissingNone:
		nanLeft = 0 <= s.Threshold
	case MissingZero:
		// Where all that counts as zero falls on the default side anyway the
		// split is an ordinary one.
		zeroLeft := zeroThreshold <= s.Threshold
		zeroRight := -zeroThreshold > s.Threshold
		if s.DefaultLeft && !zeroLeft || !s.DefaultLeft && !zeroRight {
			n.zeroDefault = 1
		}
	}
	if nanLeft {
		n.nanLeft = 1
	}
	return n
}
