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
	total    sums
	bounds   bounds
	free     bool    // nothing bounds the values
	leastH   float64 // smallest sum of hessians a side may have
	gainSelf float64 // loss reduction of the node as a leaf
}

func newSearch(opts *Options, total sums, b bounds, rootH float64) search {
	s := search{opts: opts, total: total, bounds: b, free: b == unbounded, leastH: noise * rootH}
	s.gainSelf = s.gain(&total)
	return s
}

// value is the best value of the rows as a leaf: a Newton step within bounds.
func (s *search) value(x *sums) float64 {
	return s.bounds.clip(-x.g / (x.h + s.opts.L2))
}

// gain is twice the loss that the value takes away.
func (s *search) gain(x *sums) float64 {
	if s.free {
		return x.g * x.g / (x.h + s.opts.L2)
	}
	value := s.value(x)
	return -value * (2*x.g + (x.h+s.opts.L2)*value)
}

// feature returns the best split in one feature.
func (s *search) feature(f int, c *column, hist *histogram, sign int8) candidate {
	var best candidate
	last := int(c.missing()) - 1
	missing := hist[c.missing()]
	// Missing values on the right.
	var left sums
	for i := 0; i <= last; i++ {
		if hist[i].n == 0 {
			continue // parts the rows as the bin before did
		}
		left.add(&hist[i])
		s.consider(&best, f, i, false, left, sign)
	}
	if missing.n == 0 {
		// Nothing tells the side of missing values: they follow the many.
		best.missingLeft = best.left.n > best.right.n
		return best
	}
	left = missing
	for i := 0; i < last; i++ {
		if hist[i].n == 0 {
			continue
		}
		left.add(&hist[i])
		s.consider(&best, f, i, true, left, sign)
	}
	return best
}

// consider keeps the split if it is allowed and better than the best.
func (s *search) consider(best *candidate, f, bin int, missingLeft bool, left sums, sign int8) {
	least := int64(s.opts.MinLeafRows)
	right := s.total
	right.subtract(&left)
	if left.n < least || right.n < least || left.h <= s.leastH || right.h <= s.leastH {
		return
	}
	sides := s.gain(&left) + s.gain(&right)
	gain := sides - s.gainSelf
	if gain > best.gain && gain > s.opts.MinGain && gain > noise*math.Abs(sides) {
		leftValue, rightValue := s.value(&left), s.value(&right)
		if sign > 0 && leftValue > rightValue || sign < 0 && leftValue < rightValue {
			return
		}
		*best = candidate{
			gain: gain, feature: f, bin: uint8(bin), missingLeft: missingLeft,
			left: left, right: right, leftValue: leftValue, rightValue: rightValue,
		}
	}
}
