package gbdt

import "math"

// weightedQuantile returns the smallest value such that it and all smaller
// ones have at least the share alpha of the weight: a minimiser of the pinball
// loss. It reorders both slices, expects at least one value, and takes time
// linear in their length: quickselect with three-way partition. nil weighs
// all values 1.
func weightedQuantile(values, weights []float64, alpha float64) float64 {
	if weights == nil {
		rank := int(math.Ceil(alpha*float64(len(values)))) - 1
		return selectRank(values, min(max(rank, 0), len(values)-1))
	}
	total := 0.0
	for _, w := range weights {
		total += w
	}
	target := alpha * total
	rng := pivots(len(values))
	for {
		pivot := rng.choose(values)
		low, high := partition3(values, weights, pivot)
		below, equal := 0.0, 0.0
		for _, w := range weights[:low] {
			below += w
		}
		for _, w := range weights[low:high] {
			equal += w
		}
		switch {
		case target <= below && low > 0:
			values, weights = values[:low], weights[:low]
		case target <= below+equal || high == len(values):
			// With nothing above the pivot only rounding can miss the target.
			return pivot
		default:
			target -= below + equal
			values, weights = values[high:], weights[high:]
		}
	}
}

// selectRank returns the value that would stand at rank after sorting.
func selectRank(values []float64, rank int) float64 {
	rng := pivots(len(values))
	for {
		pivot := rng.choose(values)
		low, high := partition3(values, nil, pivot)
		switch {
		case rank < low:
			values = values[:low]
		case rank < high:
			return pivot
		default:
			values, rank = values[high:], rank-high
		}
	}
}

// partition3 puts the values below the pivot first, those above it last, and
// returns where those equal to it begin and end.
func partition3(values, weights []float64, pivot float64) (low, high int) {
	high = len(values)
	for i := 0; i < high; {
		switch v := values[i]; {
		case v < pivot:
			values[i], values[low] = values[low], v
			if weights != nil {
				weights[i], weights[low] = weights[low], weights[i]
			}
			low++
			i++
		case v > pivot:
			high--
			values[i], values[high] = values[high], v
			if weights != nil {
				weights[i], weights[high] = weights[high], weights[i]
			}
		default:
			i++
		}
	}
	return low, high
}

// pivots is an xorshift generator (Marsaglia 2003): pivots must not follow
// any order of the data, and must be the same on every run.
type pivots uint64

func (p *pivots) choose(values []float64) float64 {
	a, b, c := p.pick(values), p.pick(values), p.pick(values)
	return max(min(a, b), min(max(a, b), c))
}

func (p *pivots) pick(values []float64) float64 {
	x := uint64(*p) | 1<<63
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	*p = pivots(x)
	return values[x%uint64(len(values))]
}
