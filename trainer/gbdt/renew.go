package gbdt

import "math"

// renewRows is how many rows at least stand for all rows of a split where its
// quantile is wanted.
const renewRows = 4096

// renewer replaces the Newton steps of a tree, which say little of a quantile,
// by the quantiles of the residuals.
//
// Quantiles of leaves need not keep a monotone order that the Newton steps
// kept. Every split in a monotone feature therefore parts the values allowed
// below it at the quantile of its own rows (of every second or third where they
// are many: any value would do), from the root down, and leaves are clipped to
// what is allowed to them: all leaves left of such a split stay on one side of
// all leaves right of it.
type renewer struct {
	b         *booster
	selectors []selector // by worker
}

func newRenewer(b *booster) *renewer {
	return &renewer{b: b, selectors: make([]selector, b.crew.threads)}
}

// renew takes the booster's words for the residuals: the gradients in them have
// been used.
func (r *renewer) renew(t *grownTree) {
	b := r.b
	rows, residuals := b.grower.rows, b.words[:len(b.grower.rows)]
	b.crew.each(blocks(len(rows)), func(_, i int) {
		begin, end := block(i, len(rows))
		for k := begin; k < end; k++ {
			row := rows[k]
			residuals[k] = math.Float64bits(b.labels.Y[row] - b.score[row])
		}
	})
	splits := 0 // whose quantile is wanted
	if b.opts.monotone() {
		splits = len(t.splits)
	}
	middles := make([]float64, splits)
	b.crew.each(splits+len(t.leaves), func(worker, i int) {
		of := sample{weights: b.labels.Weights, stride: 1}
		if i >= splits {
			leaf := &t.leaves[i-splits]
			of.values, of.rows = residuals[leaf.begin:leaf.end], rows[leaf.begin:leaf.end]
			leaf.value = r.selectors[worker].quantile(of, b.opts.quantile())
			return
		}
		s := &t.splits[i]
		if b.opts.sign(s.feature) != 0 {
			of.values, of.rows = residuals[s.begin:s.end], rows[s.begin:s.end]
			of.stride = max(1, len(of.rows)/renewRows)
			middles[i] = r.selectors[worker].quantile(of, b.opts.quantile())
		}
	})
	if splits > 0 {
		r.clip(t, middles)
	}
	for i := len(t.splits) - 1; i >= 0; i-- {
		t.splits[i].value = t.average(i, &b.grower.fixed)
	}
}

// clip visits splits in the order they were made, so parents first.
func (r *renewer) clip(t *grownTree, middles []float64) {
	allowed := make([]bounds, len(t.splits))
	allowed[0] = unbounded
	for i := range t.splits {
		s := &t.splits[i]
		left, right := allowed[i], allowed[i]
		if sign := r.b.opts.sign(s.feature); sign != 0 {
			left, right = allowed[i].part(sign, allowed[i].clip(middles[i]))
		}
		for side, b := range [2]bounds{left, right} {
			if child := s.child[side]; child >= 0 {
				allowed[child] = b
			} else {
				leaf := &t.leaves[^child]
				leaf.value = b.clip(leaf.value)
			}
		}
	}
}

// average is the mean value of the two sides of a split, by weight.
func (t *grownTree) average(i int, x *fixed) float64 {
	var sum, total float64
	for _, child := range t.splits[i].child {
		value, of := 0.0, sums{}
		if child >= 0 {
			value, of = t.splits[child].value, t.splits[child].sums
		} else {
			value, of = t.leaves[^child].value, t.leaves[^child].sums
		}
		_, weight := x.floats(of)
		sum += value * weight
		total += weight
	}
	return sum / total
}
