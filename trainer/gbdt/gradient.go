package gbdt

import "math"

// constant is the best prediction for the rows that knows no features.
func (b *booster) constant(rows []int32) float64 {
	y, weights := b.labels.Y, b.labels.Weights
	if b.opts.pinball() {
		values := b.words[:len(rows)]
		for k, r := range rows {
			values[k] = math.Float64bits(y[r])
		}
		var s selector
		return s.quantile(sample{values, rows, weights, 1}, b.opts.quantile())
	}
	// From the first value on, so that a constant target gives it exactly.
	first := y[rows[0]]
	var sum, total float64
	for _, r := range rows {
		w := 1.0
		if weights != nil {
			w = weights[r]
		}
		sum += w * (y[r] - first)
		total += w
	}
	return first + sum/total
}

// gradients packs the derivative of the weighted loss of each of the rows by
// its score into words.
func (b *booster) gradients(rows []int32) fixed {
	x := newFixed(len(rows))
	if b.labels.Weights != nil {
		x.weigh(b.mostWeight)
	}
	pack := b.packSquared
	switch b.opts.Objective {
	case SquaredError:
		x.scale(b.mostGradient(rows))
	case Quantile, AbsoluteError:
		if b.labels.Weights != nil {
			x.scale(b.mostWeight)
		}
		pack = b.packPinball
	}
	b.crew.each(blocks(len(rows)), func(_, i int) {
		begin, end := block(i, len(rows))
		pack(rows[begin:end], &x)
	})
	// Steps so far count what lies above the target.
	switch b.opts.Objective {
	case Quantile:
		x.offset = -b.opts.Alpha
	case AbsoluteError:
		x.offset = -1
		x.step *= 2
	}
	return x
}

// mostGradient is the largest gradient of squared error.
func (b *booster) mostGradient(rows []int32) float64 {
	y, score, weights := b.labels.Y, b.score, b.labels.Weights
	most := make([]float64, blocks(len(rows)))
	b.crew.each(len(most), func(_, i int) {
		m := 0.0
		begin, end := block(i, len(rows))
		for _, r := range rows[begin:end] {
			g := math.Abs(score[r] - y[r])
			if weights != nil {
				g *= weights[r]
			}
			if g > m {
				m = g
			}
		}
		most[i] = m
	})
	m := 0.0
	for _, g := range most {
		m = max(m, g)
	}
	return m
}

func (b *booster) packSquared(rows []int32, x *fixed) {
	y, score, weights := b.labels.Y, b.score, b.labels.Weights
	per := 1 / x.step
	if weights == nil {
		for _, r := range rows {
			b.words[r] = x.pack(nearest((score[r] - y[r]) * per))
		}
		return
	}
	for _, r := range rows {
		b.words[r] = x.pack(nearest(weights[r] * (score[r] - y[r]) * per))
	}
}

func (b *booster) packPinball(rows []int32, x *fixed) {
	y, score, weights := b.labels.Y, b.score, b.labels.Weights
	per := 1 / x.step
	for _, r := range rows {
		steps := int64(1)
		if weights != nil {
			steps = nearest(weights[r] * per)
		}
		b.words[r] = x.pack(steps * int64(b2u(score[r] > y[r])))
	}
}

func nearest(x float64) int64 { return int64(math.RoundToEven(x)) }
