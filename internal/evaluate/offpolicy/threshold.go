package offpolicy

import "math"

// thresholds is how many thresholds of switch-DR are tried: 1, 2, 4, ..., and
// none.
const thresholds = 16

// limit is the k-th threshold.
func limit(k int) float64 {
	if k == thresholds-1 {
		return math.Inf(1)
	}
	return math.Ldexp(1, k)
}

// threshold chooses the threshold of switch-DR on the log: the one with the
// least upper bound of the mean squared error (Wang, Agarwal and Dudík 2017,
// section 4.1). Its variance is that of the samples; its bias is at most the
// share of what the target does beyond the threshold, times the largest error
// that a forecast can make, for which the largest value seen stands.
type threshold struct {
	n       float64
	largest float64
	beyond  [thresholds]float64 // probability that the target does what has a weight above
	sum     [thresholds]float64
	square  [thresholds]float64
}

func (t *threshold) add(s *Sample, x *sums) {
	t.n++
	t.largest = max(t.largest, x[value])
	for i := range s.Actions {
		a := &s.Actions[i]
		if a.Logged == 0 {
			continue // forecast, whatever the threshold
		}
		w := a.weight()
		for k := 0; k < thresholds && w > limit(k); k++ {
			t.beyond[k] += a.Target
		}
	}
	for k := range thresholds {
		y := x[model] + x[switched+k]
		t.sum[k] += y
		t.square[k] += y * y
	}
}

// best is the number of the threshold with the least bound, the greatest one of
// equals.
func (t *threshold) best() int {
	best, least := thresholds-1, math.Inf(1)
	for k := thresholds - 1; k >= 0; k-- {
		mean := t.sum[k] / t.n
		variance := max(0, t.square[k]/t.n-mean*mean) / t.n
		bias := t.largest * t.beyond[k] / t.n
		if bound := variance + bias*bias; bound < least {
			best, least = k, bound
		}
	}
	return best
}
