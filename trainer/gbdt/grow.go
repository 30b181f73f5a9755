package gbdt

import (
	"context"
	"slices"
)

// smallWork is how many row-feature pairs are summed faster by one goroutine
// than shared out.
const smallWork = 1 << 14

// grower grows one tree after another over the same columns.
type grower struct {
	opts    *Options
	columns []column
	y       []float64
	weights []float64 // nil where all are 1
	score   []float64
	grad    []float64

	rows    []int32 // of the tree; those of a node stand together, ascending
	spill   []int32 // scratch of partition
	ordered [2][]float64
	free    [][]histogram // not in use, one histogram for each feature
	renewer *renewer      // nil where leaves keep their Newton step
}

// openLeaf is a leaf that may still be split.
type openLeaf struct {
	total  sums
	bounds bounds
	hists  []histogram // by feature; nil when it cannot be split
	best   candidate
}

func newGrower(b *booster) *grower {
	n := len(b.data.Y)
	g := &grower{
		opts: &b.opts, columns: b.columns, y: b.data.Y, weights: b.data.Weights,
		score: b.score, grad: b.grad,
		rows: make([]int32, 0, n), spill: make([]int32, n),
	}
	g.ordered[0] = make([]float64, n)
	if g.weights != nil {
		g.ordered[1] = make([]float64, n)
	}
	if b.opts.Objective == Quantile {
		g.renewer = newRenewer(g)
	}
	return g
}

// grow fits one tree to the gradients of the rows, splitting the leaf that
// gains most until there are enough leaves or no gain. rows becomes g.rows.
func (g *grower) grow(ctx context.Context, rows []int32, features []int) (*grownTree, error) {
	g.rows = rows
	tree := &grownTree{leaves: []grownLeaf{{end: len(rows), parent: -1}}}
	open := make([]openLeaf, 1, g.opts.Leaves)
	root := &open[0]
	root.bounds = unbounded
	root.hists = g.take()
	g.gather(0, len(rows))
	// Summed here and not from one feature's histogram, which would tie the
	// total to a feature that may not be drawn.
	for i, r := range rows {
		root.total.g += g.ordered[0][i]
		root.total.h += g.weight(r)
	}
	root.total.n = int64(len(rows))
	rootH := root.total.h
	g.findSplits(features, rows, nil, root, rootH)
	tree.leaves[0].sums = root.total
	tree.leaves[0].value = g.leafValue(root)
	for len(tree.leaves) < g.opts.Leaves {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		at := richest(open)
		if open[at].best.gain == 0 {
			break
		}
		open = append(open, openLeaf{})
		g.split(tree, open, at, features, rootH)
	}
	for i := range open {
		g.give(open[i].hists)
	}
	if g.renewer != nil && len(tree.splits) > 0 {
		g.renewer.renew(tree)
	}
	return tree, nil
}

// leafValue is the value of an open leaf.
func (g *grower) leafValue(l *openLeaf) float64 {
	s := newSearch(g.opts, l.total, l.bounds, l.total.h)
	return s.value(&l.total)
}

func (g *grower) weight(r int32) float64 {
	if g.weights == nil {
		return 1
	}
	return g.weights[r]
}

// richest returns the leaf with the largest gain, the first of equals.
func richest(open []openLeaf) int {
	at := 0
	for i := range open {
		if open[i].best.gain > open[at].best.gain {
			at = i
		}
	}
	return at
}

// split turns leaf at into a split whose left child keeps the number and
// whose right child is the last of open.
func (g *grower) split(tree *grownTree, open []openLeaf, at int, features []int, rootH float64) {
	parent := open[at]
	best := parent.best
	leaf := &tree.leaves[at]
	begin, end := leaf.begin, leaf.end
	mid := begin + g.partition(begin, end, &best)
	tree.split(at, mid, &best)

	left, right := &open[at], &open[len(open)-1]
	*left = openLeaf{total: best.left, bounds: parent.bounds}
	*right = openLeaf{total: best.right, bounds: parent.bounds}
	if g.renewer == nil {
		sign := g.sign(best.feature)
		left.bounds, right.bounds = parent.bounds.part(sign, best.leftValue/2+best.rightValue/2)
	}
	if len(tree.leaves) == g.opts.Leaves {
		g.give(parent.hists)
		return
	}
	// The child with fewer rows is summed, the other is what remains.
	small, large, from, to := left, right, begin, mid
	if best.left.n > best.right.n {
		small, large, from, to = right, left, mid, end
	}
	least := int64(2 * g.opts.MinLeafRows)
	if large.total.n < least {
		g.give(parent.hists)
		return
	}
	g.gather(from, to)
	small.hists, large.hists = g.take(), parent.hists
	g.findSplits(features, g.rows[from:to], large, small, rootH)
	if small.total.n < least {
		g.give(small.hists)
		small.hists = nil
	}
}

// findSplits sums the gathered rows of leaf small into its histograms, takes
// them from those of its sibling large (nil at the root), and finds the best
// split of both.
func (g *grower) findSplits(features []int, rows []int32, large, small *openLeaf, rootH float64) {
	threads := g.opts.Threads
	if len(rows)*len(features) < smallWork {
		threads = 1
	}
	grad, hess := g.ordered[0], g.ordered[1]
	smallSearch := newSearch(g.opts, small.total, small.bounds, rootH)
	var largeSearch search
	if large != nil {
		largeSearch = newSearch(g.opts, large.total, large.bounds, rootH)
	}
	found := make([][2]candidate, len(features))
	parallel(threads, len(features), func(_, i int) {
		f := features[i]
		c := &g.columns[f]
		small.hists[f].fill(c, rows, grad, hess)
		found[i][0] = smallSearch.feature(f, c, &small.hists[f], g.sign(f))
		if large != nil {
			large.hists[f].subtract(&small.hists[f], c)
			found[i][1] = largeSearch.feature(f, c, &large.hists[f], g.sign(f))
		}
	})
	for _, pair := range found {
		if pair[0].gain > small.best.gain {
			small.best = pair[0]
		}
		if large != nil && pair[1].gain > large.best.gain {
			large.best = pair[1]
		}
	}
}

func (g *grower) sign(feature int) int8 {
	if g.opts.MonotoneSigns == nil {
		return 0
	}
	return g.opts.MonotoneSigns[feature]
}

// gather copies gradients and weights of rows [begin, end) into their order,
// once for all features.
func (g *grower) gather(begin, end int) {
	for i, r := range g.rows[begin:end] {
		g.ordered[0][i] = g.grad[r]
	}
	if g.weights == nil {
		return
	}
	for i, r := range g.rows[begin:end] {
		g.ordered[1][i] = g.weights[r]
	}
}

// partition puts the rows of [begin, end) that go left first, keeps the order
// within both sides, and returns how many go left.
func (g *grower) partition(begin, end int, best *candidate) int {
	c := &g.columns[best.feature]
	var goesLeft [256]uint8
	for code := range int(best.bin) + 1 {
		goesLeft[code] = 1
	}
	if best.missingLeft {
		goesLeft[c.missing()] = 1
	} else {
		goesLeft[c.missing()] = 0
	}
	rows, spill, codes := g.rows[begin:end], g.spill, c.codes
	left, right := 0, 0
	// Both sides are written every time and one moves on: no branch to guess.
	// rows[left] was read before, or is r itself.
	for _, r := range rows {
		rows[left], spill[right] = r, r
		step := int(goesLeft[codes[r]])
		left += step
		right += 1 - step
	}
	copy(rows[left:], g.spill[:right])
	return left
}

func (g *grower) take() []histogram {
	if n := len(g.free); n > 0 {
		h := g.free[n-1]
		g.free = slices.Delete(g.free, n-1, n)
		return h
	}
	return make([]histogram, len(g.columns))
}

func (g *grower) give(h []histogram) {
	if h != nil {
		g.free = append(g.free, h)
	}
}
