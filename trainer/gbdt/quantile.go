package gbdt

import (
	"math"
	"slices"
)

// sample is values to take a quantile of, each that of a row: the first of
// every stride.
type sample struct {
	values  []uint64 // bits of numbers, in the order of rows
	rows    []int32
	weights []float64 // by row; nil where all weigh 1
	stride  int       // from 1
}

func (s *sample) weight(i int) float64 {
	if s.weights == nil {
		return 1
	}
	return s.weights[s.rows[i]]
}

const (
	selectBuckets = 1024
	// selectSorted is how many values are sorted rather than sifted.
	selectSorted = 512
)

// selector finds quantiles and keeps the memory that it takes.
type selector struct {
	buckets [selectBuckets]float64 // weight
	few     []weighted
}

type weighted struct{ value, weight float64 }

// quantile returns the smallest value such that it and all smaller ones have at
// least the share alpha of the weight: a minimiser of the pinball loss. It
// expects at least one value and reads the values a few times, sifting them by
// buckets of equal width and then the values of one bucket, until few are left
// to sort.
func (s *selector) quantile(from sample, alpha float64) float64 {
	low, high := math.Inf(1), math.Inf(-1)
	total, n := 0.0, 0
	for i := 0; i < len(from.values); i += from.stride {
		v := math.Float64frombits(from.values[i])
		if v < low {
			low = v
		}
		if v > high {
			high = v
		}
		total += from.weight(i)
		n++
	}
	target := alpha * total
	// What is looked for is in [low, high], and target counts from low on.
	for low < high {
		if n <= selectSorted {
			return s.sorted(from, low, high, target)
		}
		clear(s.buckets[:])
		perWidth := selectBuckets / (high - low)
		for i := 0; i < len(from.values); i += from.stride {
			v := math.Float64frombits(from.values[i])
			if v >= low && v <= high {
				s.buckets[bucket(v-low, perWidth)] += from.weight(i)
			}
		}
		at, last := -1, 0
		for b, w := range s.buckets {
			if w == 0 {
				continue
			}
			last = b
			if w >= target {
				at = b
				break
			}
			target -= w
		}
		if at < 0 { // by rounding alone
			at = last
		}
		// Only what fell into that bucket is left.
		first, lowest, highest := low, math.Inf(1), math.Inf(-1)
		n = 0
		for i := 0; i < len(from.values); i += from.stride {
			v := math.Float64frombits(from.values[i])
			if v >= low && v <= high && bucket(v-first, perWidth) == at {
				lowest, highest = min(lowest, v), max(highest, v)
				n++
			}
		}
		low, high = lowest, highest
	}
	return low
}

// bucket is the bucket of a value so far above the lowest.
func bucket(above, perWidth float64) int {
	x := above * perWidth
	if x >= selectBuckets-1 {
		return selectBuckets - 1
	}
	if x > 0 { // and not the NaN of 0 times infinity
		return int(x)
	}
	return 0
}

// sorted is the value among those of [low, high] at which their weight, summed
// in ascending order, reaches target.
func (s *selector) sorted(from sample, low, high, target float64) float64 {
	s.few = s.few[:0]
	for i := 0; i < len(from.values); i += from.stride {
		if v := math.Float64frombits(from.values[i]); v >= low && v <= high {
			s.few = append(s.few, weighted{v, from.weight(i)})
		}
	}
	slices.SortFunc(s.few, func(a, b weighted) int {
		switch {
		case a.value < b.value:
			return -1
		case a.value > b.value:
			return 1
		}
		return 0
	})
	for _, x := range s.few {
		if target -= x.weight; target <= 0 {
			return x.value
		}
	}
	return high
}
