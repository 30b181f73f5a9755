package gbdt

// renewer replaces the Newton steps of a tree, which say little of a quantile,
// by the quantiles of the residuals.
//
// Quantiles of leaves need not keep a monotone order that the Newton steps
// kept. Every split in a monotone feature therefore parts the values allowed
// below it at its own rows' quantile, from the root down, and leaves are
// clipped to what is allowed to them: all leaves left of such a split stay on
// one side of all leaves right of it.
type renewer struct {
	g         *grower
	residuals []float64 // in the order of grower.rows
	weights   []float64 // likewise; nil where all are 1
	scratch   [2][]float64
	monotone  bool
}

func newRenewer(g *grower) *renewer {
	n := len(g.y)
	r := &renewer{g: g, residuals: make([]float64, n)}
	for _, sign := range g.opts.MonotoneSigns {
		r.monotone = r.monotone || sign != 0
	}
	if g.weights != nil {
		r.weights = make([]float64, n)
	}
	if r.monotone {
		r.scratch[0] = make([]float64, n)
		r.scratch[1] = make([]float64, n)
	}
	return r
}

func (r *renewer) renew(t *grownTree) {
	g := r.g
	parallel(g.opts.Threads, len(t.leaves), func(_, i int) {
		leaf := &t.leaves[i]
		for k := leaf.begin; k < leaf.end; k++ {
			row := g.rows[k]
			r.residuals[k] = g.y[row] - g.score[row]
			if r.weights != nil {
				r.weights[k] = g.weights[row]
			}
		}
		var weights []float64
		if r.weights != nil {
			weights = r.weights[leaf.begin:leaf.end]
		}
		leaf.value = weightedQuantile(r.residuals[leaf.begin:leaf.end], weights, g.opts.Alpha)
	})
	if r.monotone {
		r.clip(t)
	}
	for i := len(t.splits) - 1; i >= 0; i-- {
		t.splits[i].value = t.average(i)
	}
}

// clip visits splits in the order they were made, so parents first.
func (r *renewer) clip(t *grownTree) {
	allowed := make([]bounds, len(t.splits))
	for i := range t.splits {
		s := &t.splits[i]
		if i == 0 {
			allowed[0] = unbounded
		}
		left, right := allowed[i], allowed[i]
		if sign := r.g.sign(s.feature); sign != 0 {
			left, right = allowed[i].part(sign, allowed[i].clip(r.quantile(s)))
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

// quantile is that of the residuals of all rows of a split.
func (r *renewer) quantile(s *grownSplit) float64 {
	values := r.scratch[0][:copy(r.scratch[0], r.residuals[s.begin:s.end])]
	var weights []float64
	if r.weights != nil {
		weights = r.scratch[1][:copy(r.scratch[1], r.weights[s.begin:s.end])]
	}
	return weightedQuantile(values, weights, r.g.opts.Alpha)
}

// average is the mean value of the two sides of a split, by weight.
func (t *grownTree) average(i int) float64 {
	var sum, total float64
	for _, child := range t.splits[i].child {
		value, weight := 0.0, 0.0
		if child >= 0 {
			value, weight = t.splits[child].value, t.splits[child].sums.h
		} else {
			value, weight = t.leaves[^child].value, t.leaves[^child].sums.h
		}
		sum += value * weight
		total += weight
	}
	return sum / total
}
