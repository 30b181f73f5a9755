package gbdt

import "math"

// noise is the relative gain below which a split is rounding, not signal.
const noise = 1e-12

// bounds are the values that monotone ancestors leave to a node.
type bounds struct{ low, high float64 }

var unbounded = bounds{math.Inf(-1), math.Inf(1)}

func (b bounds) clip(x float64) float64 { return min(max(x, b.low), b.high) }

// part returns what a split at value mid, in a feature of the given sign,
// leaves to the two sides.
func (b bounds) part(sign int8, mid float64) (left, right bounds) {
	left, right = b, b
	switch {
	case sign > 0:
		left.high, right.low = mid, mid
	case sign < 0:
		left.low, right.high = mid, mid
	}
	return left, right
}

// candidate is the best split found so far; gain 0 is none.
type candidate struct {
	gain        float64
	feature     int
	bin         uint8 // codes up to it go left
	missingLeft bool
	left, right sums
	// The values of the two sides as leaves, within bounds.
	leftValue, rightValue float64
}

// search looks for the best split of one node.
type search struct {
	opts     *Options
	fixed    fixed
	total    sums
	g, h     float64 // of total
	n        int64
	bounds   bounds
	leastH   float64 // smallest sum of weights a side may have
	gainSelf float64 // loss reduction of the node as a leaf
	// plain says that the gain is g^2/(h+L2): no bounds, no L1.
	plain bool
}

func newSearch(opts *Options, x fixed, total sums, b bounds, rootH float64) search {
	s := search{
		opts: opts, fixed: x, total: total, n: x.count(total.word), bounds: b,
		leastH: noise * rootH, plain: b == unbounded && opts.L1 == 0,
	}
	s.g, s.h = x.floats(total)
	s.gainSelf = s.gain(s.g, s.h)
	return s
}

// value is the best value of rows as a leaf: a Newton step within bounds.
func (s *search) value(g, h float64) float64 {
	return s.bounds.clip(-shrunk(g, s.opts.L1) / (h + s.opts.L2))
}

// gain is twice the loss that the value takes away.
func (s *search) gain(g, h float64) float64 {
	if s.plain {
		return g * g / (h + s.opts.L2)
	}
	value := s.value(g, h)
	return -value*(2*g+(h+s.opts.L2)*value) - 2*s.opts.L1*math.Abs(value)
}

// shrunk is g nearer to 0 by at most by.
func shrunk(g, by float64) float64 {
	if by == 0 {
		return g
	}
	return math.Copysign(max(math.Abs(g)-by, 0), g)
}

// feature returns the best split in one feature.
func (s *search) feature(f int, c *column, h *histogram, sign int8) candidate {
	var best candidate
	words := &h.words[f]
	var weights *bins
	if h.weights != nil {
		weights = &h.weights[f]
	}
	code := c.missing()
	missing := sums{word: words[code]}
	if weights != nil {
		missing.weight = weights[code]
	}
	// Missing values on the right.
	s.scan(&best, f, words, weights, int(code), sums{}, sign)
	if missing.word == 0 {
		// Nothing tells the side of missing values: they follow the many.
		best.missingLeft = s.fixed.count(best.left.word) > s.fixed.count(best.right.word)
		return best
	}
	// And on the left, but for the last bin, which would leave nothing right.
	gain := best.gain
	s.scan(&best, f, words, weights, int(code)-1, missing, sign)
	best.missingLeft = best.gain > gain
	return best
}

// scan considers a split after each of the first bins bins, with left already
// on the left side.
func (s *search) scan(best *candidate, f int, words, weights *bins, count int, left sums, sign int8) {
	least, l2 := int64(s.opts.MinLeafRows), s.opts.L2
	x := s.fixed
	// What a split must exceed, as the sum of the gains of its sides.
	bar := s.gainSelf + max(best.gain, s.opts.MinGain)
	for i, word := range words[:count] {
		if word == 0 {
			continue // parts the rows as the bin before did
		}
		left.word += word
		if weights != nil {
			left.weight += weights[i]
		}
		n := x.count(left.word)
		if n < least {
			continue
		}
		if s.n-n < least {
			break
		}
		g, h := x.floats(left)
		rightG, rightH := s.g-g, s.h-h
		if s.plain {
			// g^2/(h+l2) + rightG^2/(rightH+l2) > bar, without dividing.
			a, b := h+l2, rightH+l2
			if !(g*g*b+rightG*rightG*a > bar*a*b) {
				continue
			}
		}
		if h <= s.leastH || rightH <= s.leastH {
			continue
		}
		sides := s.gain(g, h) + s.gain(rightG, rightH)
		gain := sides - s.gainSelf
		if !(gain > best.gain && gain > s.opts.MinGain && gain > noise*math.Abs(sides)) {
			continue
		}
		leftValue, rightValue := s.value(g, h), s.value(rightG, rightH)
		if sign > 0 && leftValue > rightValue || sign < 0 && leftValue < rightValue {
			continue
		}
		*best = candidate{
			gain: gain, feature: f, bin: uint8(i), left: left, right: s.total.minus(left),
			leftValue: leftValue, rightValue: rightValue,
		}
		bar = s.gainSelf + max(gain, s.opts.MinGain)
	}
}
