package gbdt

import (
	"math"
	"math/bits"
)

// fixed packs what a histogram knows of a set of rows into one word: their
// number in the low bits and, above it in two's complement, the sum of their
// gradients as whole steps. Words are added and subtracted like numbers, both
// halves at once and without rounding, so the order of the rows and the way
// they are shared out among goroutines cannot show in a sum. Weights, where
// rows have any, are whole steps in a word of their own.
//
// A gradient is at most 2^63 / rows^2 steps (rounded down to a power of two):
// 2^31 for 50,000 rows, 2^23 for 1,000,000.
type fixed struct {
	shift    uint    // bits of the number of rows
	step     float64 // gradient of one step
	offset   float64 // gradient of each unit of weight beside the steps
	weighted bool
	weight   float64 // weight of one step of weight; unused where all rows weigh 1
}

// newFixed fits the number of rows that are summed.
func newFixed(rows int) fixed {
	return fixed{shift: uint(bits.Len(uint(rows))), step: 1}
}

// scale sets the step so that no gradient of at most most overflows a sum.
func (x *fixed) scale(most float64) { x.step = stepFor(most, 62-2*x.shift) }

// weigh sets the step of weights of at most most.
func (x *fixed) weigh(most float64) {
	x.weighted, x.weight = true, stepFor(most, 62-x.shift)
}

// stepFor is the least power of two of which most has at most 2^bits.
func stepFor(most float64, bits uint) float64 {
	_, exponent := math.Frexp(most)
	return math.Ldexp(1, max(exponent-int(bits), -1000))
}

func (x *fixed) pack(steps int64) uint64 { return uint64(steps)<<x.shift + 1 }

func (x *fixed) count(word uint64) int64 { return int64(word & (1<<x.shift - 1)) }

// floats returns the sums of gradients and of weights.
func (x *fixed) floats(s sums) (g, h float64) {
	h = float64(s.word & (1<<x.shift - 1))
	if x.weighted {
		h = float64(int64(s.weight)) * x.weight
	}
	return float64(int64(s.word)>>x.shift)*x.step + x.offset*h, h
}

// sums is what a split needs to know of a set of rows.
type sums struct {
	word   uint64 // as fixed packs it
	weight uint64 // steps of weight; 0 where all rows weigh 1
}

func (s sums) minus(o sums) sums { return sums{s.word - o.word, s.weight - o.weight} }

// bins is one feature's part of a histogram, a word for each code.
type bins [256]uint64

// histogram is the sums by feature and code.
type histogram struct {
	words   []bins
	weights []bins // nil where all rows weigh 1
}

const binsBytes = 256 * 8

// maxHistogramBytes bounds what the open leaves of one tree may keep.
const maxHistogramBytes = 1 << 30

func newHistogram(groups int, weighted bool) histogram {
	// The kernels add two groups of features at a time.
	h := histogram{words: make([]bins, groups*quad)}
	if weighted {
		h.weights = make([]bins, groups*quad)
	}
	return h
}

func (h *histogram) clear() {
	clear(h.words)
	clear(h.weights)
}

// add adds the sums of feature f in o.
func (h *histogram) add(o *histogram, f int) {
	h.words[f].add(&o.words[f])
	if h.weights != nil {
		h.weights[f].add(&o.weights[f])
	}
}

// subtract takes away the sums of feature f in o.
func (h *histogram) subtract(o *histogram, f int) {
	h.words[f].subtract(&o.words[f])
	if h.weights != nil {
		h.weights[f].subtract(&o.weights[f])
	}
}

func (b *bins) add(o *bins) {
	for i, x := range o {
		b[i] += x
	}
}

func (b *bins) subtract(o *bins) {
	for i, x := range o {
		b[i] -= x
	}
}

// addQuads adds words, in the order of rows, at the rows' codes of two groups
// of features.
func addQuads(to *[2 * quad]bins, a, b []uint32, rows []int32, words []uint64) {
	words = words[:len(rows)]
	b = b[:len(a)]
	for i, r := range rows {
		w := words[i]
		c := a[r]
		to[0][uint8(c)] += w
		to[1][uint8(c>>8)] += w
		to[2][uint8(c>>16)] += w
		to[3][uint8(c>>24)] += w
		c = b[r]
		to[4][uint8(c)] += w
		to[5][uint8(c>>8)] += w
		to[6][uint8(c>>16)] += w
		to[7][uint8(c>>24)] += w
	}
}

// addQuad is addQuads for one group.
func addQuad(to *[quad]bins, a []uint32, rows []int32, words []uint64) {
	words = words[:len(rows)]
	for i, r := range rows {
		w := words[i]
		c := a[r]
		to[0][uint8(c)] += w
		to[1][uint8(c>>8)] += w
		to[2][uint8(c>>16)] += w
		to[3][uint8(c>>24)] += w
	}
}
