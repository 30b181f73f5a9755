package forest

import "math"

// A Forest is laid out for evaluation as words of 64 bits, one for every node,
// tree after tree, each breadth first, the right child just behind the left:
//
//	bits 63-54  lanes x the column the split looks at: an index into rowKeys
//	bits 53-32  the node of the left child
//	bits 31-0   the complement of the threshold's key
//
// A key is a float32 as the unsigned number of the same order. Adding the key
// of a row's value to a word carries into the child exactly when the value is
// above the threshold: one addition compares and chooses the child.
//
// The lower half of a leaf is 0, so that nothing carries out of it, and its
// child is the root of the next tree. A row therefore walks all trees as one
// chain, without a branch that depends on it, and reaches a last node that
// leads back to itself. Rows walk side by side, each as many steps as its own
// paths are long.
//
// Keys are exact because rows are: vectors are float32, and x <= t holds for a
// float32 x when it holds for the largest float32 that is not above t. Rows
// that are not, and forests of more than maxColumns columns, are walked split
// by split.
const (
	columnShift = 54
	childShift  = 32
	childMask   = 1<<(columnShift-childShift) - 1 // more than the nodes of any forest
)

// maxColumns is what fits the bits of a word. A forest of up to 32 features
// never needs more.
const maxColumns = (1 << (64 - columnShift)) / lanes

// column is a feature as a split sees it: with the side of its missing values
// folded in, as a key below or above all thresholds.
type column struct {
	feature int32
	missing uint32 // the key of a missing value: lowest or highest
	zero    bool   // zero is missing too
}

// The keys of missing values: those of finite thresholds lie between them.
const (
	lowest  = uint32(0)
	highest = ^uint32(0)
)

// keyOf maps float32s that are not NaN to unsigned numbers of the same order.
// It sets -0 below 0.
func keyOf(x float32) uint32 {
	b := math.Float32bits(x)
	return b ^ (uint32(int32(b)>>31) | 1<<31)
}

// thresholdKey is the key of the largest float32 that is not above t; that of
// 0 for both zeros.
func thresholdKey(t float64) uint32 {
	x := float32(t)
	if float64(x) > t {
		x = math.Nextafter32(x, float32(math.Inf(-1)))
	}
	if x == 0 {
		return keyOf(0)
	}
	return keyOf(x)
}

func columnOf(s *Split) column {
	c := column{feature: s.Feature, missing: highest, zero: s.Missing == MissingZero}
	if s.missingLeft() {
		c.missing = lowest
	}
	return c
}

// flatten lays all trees out; total is the number of their leaves.
func (f *Forest) flatten(total int) {
	size := 2*total - len(f.trees) + 1
	f.words = make([]uint64, 0, size)
	f.values = make([]float64, size)
	f.roots = make([]uint32, len(f.trees))
	indices := map[column]int{}
	var queue []int32 // nodes of a tree in breadth-first order, as in Split
	for i := range f.trees {
		t := &f.trees[i]
		root := len(f.words)
		next := root + 2*len(t.Leaves) - 1
		f.roots[i] = uint32(root)
		queue = append(queue[:0], t.root())
		for at := 0; at < len(queue); at++ {
			node := queue[at]
			if node < 0 {
				f.values[len(f.words)] = t.Leaves[^node].Value
				f.words = append(f.words, uint64(next)<<childShift)
				continue
			}
			s := &t.Splits[node]
			c := columnOf(s)
			index, known := indices[c]
			if !known {
				index = len(f.columns)
				indices[c] = index
				f.columns = append(f.columns, c)
			}
			f.words = append(f.words, uint64(index*lanes)<<columnShift|uint64(root+len(queue))<<childShift|uint64(^thresholdKey(s.Threshold)))
			queue = append(queue, s.Left, s.Right)
		}
	}
	f.words = append(f.words, uint64(len(f.words))<<childShift)
	if len(f.columns) > maxColumns {
		f.words, f.values, f.roots, f.columns = nil, nil, nil, nil
	}
}
