package gbdt

import "context"

const (
	// gatherRows is how many rows have their gradients brought into order at a
	// time, for all features: few enough for the first-level cache.
	gatherRows = 1024
	// sumRows is the fewest rows that are worth a goroutine of their own when
	// they are summed.
	sumRows = 1024
)

// grower grows one tree after another over the same rows.
type grower struct {
	crew    *crew
	opts    *Options
	binned  *Binned
	weights []float64 // by row; nil where all are 1
	words   []uint64  // by row: the gradient as fixed packs it
	fixed   fixed

	rows []int32 // of the tree; those of a node stand together, ascending
	// What a tree or a split needs is kept for the next one.
	tree     grownTree
	open     []openLeaf
	spill    []int32    // of partition
	lefts    []int      // likewise
	goesLeft [256]uint8 // likewise
	workers  []worker
	free     []histogram // not in use
	searches [2]search   // of the smaller and of the larger side
	found    [][2]candidate
}

// worker is what one goroutine needs to sum rows.
type worker struct {
	part    histogram // of its share of the rows; unused by the first
	words   [gatherRows]uint64
	weights [gatherRows]uint64
}

// openLeaf is a leaf that may still be split.
type openLeaf struct {
	total  sums
	bounds bounds
	hist   histogram // empty when it cannot be split
	best   candidate
}

func newGrower(b *booster) *grower {
	n := b.binned.Rows()
	return &grower{
		crew: b.crew, opts: &b.opts, binned: b.binned, weights: b.labels.Weights, words: b.words,
		rows: make([]int32, 0, n), spill: make([]int32, n),
		lefts: make([]int, b.crew.threads), workers: make([]worker, b.crew.threads), found: make([][2]candidate, len(b.binned.columns)),
	}
}

// grow fits one tree to the gradients of the rows, splitting the leaf that
// gains most until there are enough leaves or no gain. rows becomes g.rows.
// bound says that monotone bounds are handed down; else only the two sides of
// a split are held to the sign. The tree is good until the next one.
func (g *grower) grow(ctx context.Context, rows []int32, features []int, bound bool) (*grownTree, error) {
	g.rows = rows
	tree := &g.tree
	tree.splits = tree.splits[:0]
	tree.leaves = append(tree.leaves[:0], grownLeaf{end: len(rows), parent: -1})
	open := append(g.open[:0], openLeaf{})
	root := &open[0]
	root.bounds = unbounded
	root.hist = g.take()
	parts := g.sum(0, len(rows), features, &root.hist)
	root.total = g.total(features[0], &root.hist, parts)
	_, tree.rootH = g.fixed.floats(root.total)
	g.search(features, parts, root, nil, tree.rootH)
	tree.leaves[0].sums = root.total
	s := newSearch(g.opts, g.fixed, root.total, unbounded, tree.rootH)
	tree.leaves[0].value = s.value(s.g, s.h)
	for len(tree.leaves) < g.opts.Leaves {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		at := richest(open)
		if open[at].best.gain == 0 {
			break
		}
		open = append(open, openLeaf{})
		g.split(tree, open, at, features, bound)
	}
	for i := range open {
		g.give(&open[i].hist)
	}
	g.open = open
	return tree, nil
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
func (g *grower) split(tree *grownTree, open []openLeaf, at int, features []int, bound bool) {
	parent := open[at]
	best := parent.best
	leaf := &tree.leaves[at]
	begin, end := leaf.begin, leaf.end
	mid := g.partition(begin, end, &best)
	tree.split(at, mid, &best)

	left, right := &open[at], &open[len(open)-1]
	*left = openLeaf{total: best.left, bounds: parent.bounds}
	*right = openLeaf{total: best.right, bounds: parent.bounds}
	if bound {
		sign := g.opts.sign(best.feature)
		left.bounds, right.bounds = parent.bounds.part(sign, best.leftValue/2+best.rightValue/2)
	}
	if len(tree.leaves) == g.opts.Leaves {
		g.give(&parent.hist)
		return
	}
	// The child with fewer rows is summed, the other is what remains.
	small, large, from, to := left, right, begin, mid
	if mid-begin > end-mid {
		small, large, from, to = right, left, mid, end
	}
	if max(mid-begin, end-mid) < 2*g.opts.MinLeafRows {
		g.give(&parent.hist)
		return
	}
	small.hist, large.hist = g.take(), parent.hist
	parts := g.sum(from, to, features, &small.hist)
	g.search(features, parts, small, large, tree.rootH)
	if to-from < 2*g.opts.MinLeafRows {
		g.give(&small.hist)
	}
}

// sum sums the rows of [begin, end) by code of the features: the first part of
// them into h, the others into as many of the workers' own histograms. It
// returns how many parts there are.
func (g *grower) sum(begin, end int, features []int, h *histogram) int {
	n := end - begin
	parts := g.cut(n, sumRows)
	g.crew.each(parts, func(_, i int) {
		w, to := &g.workers[i], h
		if i > 0 {
			if w.part.words == nil {
				w.part = newHistogram(len(g.binned.codes), g.weights != nil)
			}
			to = &w.part
		}
		to.clear()
		g.sumPart(w, to, g.rows[begin+i*n/parts:begin+(i+1)*n/parts], features)
	})
	return parts
}

func (g *grower) sumPart(w *worker, h *histogram, rows []int32, features []int) {
	codes := g.binned.codes
	for len(rows) > 0 {
		chunk := rows[:min(len(rows), gatherRows)]
		rows = rows[len(chunk):]
		for i, r := range chunk {
			w.words[i] = g.words[r]
		}
		if g.weights != nil {
			perWeight := 1 / g.fixed.weight
			for i, r := range chunk {
				w.weights[i] = uint64(int64(g.weights[r]*perWeight + 0.5))
			}
		}
		// Two groups of features at a time, and of those that are drawn.
		for at := 0; at < len(features); {
			group := features[at] / quad
			for at < len(features) && features[at] < (group+2)*quad {
				at++
			}
			if group+1 < len(codes) {
				a, b := codes[group], codes[group+1]
				addQuads((*[2 * quad]bins)(h.words[group*quad:]), a, b, chunk, w.words[:])
				if g.weights != nil {
					addQuads((*[2 * quad]bins)(h.weights[group*quad:]), a, b, chunk, w.weights[:])
				}
				continue
			}
			addQuad((*[quad]bins)(h.words[group*quad:]), codes[group], chunk, w.words[:])
			if g.weights != nil {
				addQuad((*[quad]bins)(h.weights[group*quad:]), codes[group], chunk, w.weights[:])
			}
		}
	}
}

// total is the sum over all codes of one feature.
func (g *grower) total(f int, h *histogram, parts int) (t sums) {
	for i := range parts {
		from := h
		if i > 0 {
			from = &g.workers[i].part
		}
		for code := range from.words[f] {
			t.word += from.words[f][code]
			if g.weights != nil {
				t.weight += from.weights[f][code]
			}
		}
	}
	return t
}

// search adds up the parts of the histogram of leaf small, takes it from that
// of its sibling large (nil at the root), and finds the best split of both.
func (g *grower) search(features []int, parts int, small, large *openLeaf, rootH float64) {
	g.searches[0] = newSearch(g.opts, g.fixed, small.total, small.bounds, rootH)
	if large != nil {
		g.searches[1] = newSearch(g.opts, g.fixed, large.total, large.bounds, rootH)
	}
	found := g.found[:len(features)]
	g.crew.each(len(features), func(_, i int) {
		f := features[i]
		c, sign := &g.binned.columns[f], g.opts.sign(f)
		for part := 1; part < parts; part++ {
			small.hist.add(&g.workers[part].part, f)
		}
		found[i][0] = g.searches[0].feature(f, c, &small.hist, sign)
		if large != nil {
			large.hist.subtract(&small.hist, f)
			found[i][1] = g.searches[1].feature(f, c, &large.hist, sign)
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

func (g *grower) take() histogram {
	if n := len(g.free); n > 0 {
		h := g.free[n-1]
		g.free = g.free[:n-1]
		return h
	}
	return newHistogram(len(g.binned.codes), g.weights != nil)
}

// give takes a histogram back and leaves an empty one.
func (g *grower) give(h *histogram) {
	if h.words != nil {
		g.free = append(g.free, *h)
	}
	*h = histogram{}
}
