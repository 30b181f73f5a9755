package gbdt

import (
	"math"
	"math/rand/v2"
)

// binSample is how many rows the bins are drawn from: some 400 for each of 255,
// so that their shares of the rows are even to 5 %.
const binSample = 100_000

// sampleRows returns all rows, or binSample of them in ascending order: one
// from each of as many strata of neighbours.
func sampleRows(rows int, rng *rand.Rand) []int32 {
	sample := make([]int32, min(rows, binSample))
	for i := range sample {
		begin := i * rows / len(sample)
		end := (i + 1) * rows / len(sample)
		sample[i] = int32(begin)
		if end-begin > 1 {
			sample[i] += rng.Int32N(int32(end - begin))
		}
	}
	return sample
}

// findBounds returns at most bins-1 bounds that put about the same number of
// the values, given as sorted keys, into every bin and never part equal ones. A
// value that fills a bin alone gets one.
func findBounds(sorted []uint64, bins int) []float64 {
	distinct := countDistinct(sorted)
	if distinct == 0 {
		return nil
	}
	bounds := make([]float64, 0, min(bins, distinct)-1)
	rest, held := len(sorted), 0
	for begin := 0; ; {
		// The run of keys equal to the one at begin, and the run after it.
		end := runEnd(sorted, begin)
		if end == len(sorted) || len(bounds) == bins-1 {
			return bounds
		}
		held += end - begin
		// What is not yet behind a bound is shared among the bins left.
		share := float64(rest) / float64(bins-len(bounds))
		enough := distinct <= bins || float64(held) >= share
		if !enough && 2*float64(held) >= share {
			next := runEnd(sorted, end) - end
			enough = float64(next) >= share // it stands alone
		}
		if enough {
			bounds = append(bounds, between(keyValue(sorted[begin]), keyValue(sorted[end])))
			rest, held = rest-held, 0
		}
		begin = end
	}
}

func countDistinct(sorted []uint64) int {
	n := 0
	for i, v := range sorted {
		if i == 0 || v != sorted[i-1] {
			n++
		}
	}
	return n
}

// runEnd is where the keys equal to the one at begin end.
func runEnd(sorted []uint64, begin int) int {
	end := begin + 1
	for end < len(sorted) && sorted[end] == sorted[begin] {
		end++
	}
	return end
}

// between returns a threshold t with a <= t < b, in the middle if there is one.
func between(a, b float64) float64 {
	if t := a/2 + b/2; a <= t && t < b {
		return t
	}
	return a
}

// sortKey maps numbers to integers of the same order.
func sortKey(x float64) uint64 {
	bits := math.Float64bits(x)
	return bits ^ (uint64(int64(bits)>>63) | 1<<63)
}

// keyValue is the number that sortKey maps to the key.
func keyValue(key uint64) float64 {
	return math.Float64frombits(key ^ (^uint64(int64(key)>>63) | 1<<63))
}

// digitBits splits a sort key into the digits of radix sort and selection.
const digitBits = 11

// sorter sorts numbers by radix, lowest digit first. It is used again and
// again and keeps its memory.
type sorter struct {
	keys, other []uint64
	counts      [1 << digitBits]int32
}

func (s *sorter) reset(capacity int) {
	if cap(s.keys) < capacity {
		s.keys, s.other = make([]uint64, 0, capacity), make([]uint64, capacity)
	}
	s.keys = s.keys[:0]
}

// add takes a number that is not NaN; both zeros are one.
func (s *sorter) add(x float64) { s.keys = append(s.keys, sortKey(x+0)) }

// sort returns the keys of what was added in ascending order. The slice is good
// until the next reset.
func (s *sorter) sort() []uint64 {
	from, to := s.keys, s.other[:len(s.keys)]
	for shift := 0; shift < 64; shift += digitBits {
		counts := &s.counts
		clear(counts[:])
		for _, k := range from {
			counts[k>>shift&(1<<digitBits-1)]++
		}
		if len(from) > 0 && int(counts[from[0]>>shift&(1<<digitBits-1)]) == len(from) {
			continue // all have the same digit
		}
		at := int32(0)
		for d, n := range counts {
			counts[d] = at
			at += n
		}
		for _, k := range from {
			d := k >> shift & (1<<digitBits - 1)
			to[counts[d]] = k
			counts[d]++
		}
		from, to = to, from
	}
	return from
}
