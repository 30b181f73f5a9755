package evaluate

import (
	"maps"
	"math"
	"slices"
)

// A sketch counts positive numbers in buckets of 0.4 % width, so that any
// quantile of any number of rows is known to 0.2 % in bounded memory
// (DDSketch: Masson, Rim and Lee, VLDB 2019). Two sketches of parts are the
// sketch of the whole.
type sketch map[int32]int64

const (
	sketchWidth = 1.004
	sketchZero  = math.MinInt32 // what is too small to matter, 0 included
	sketchLeast = 1e-9
)

var sketchLog = math.Log(sketchWidth)

func (s sketch) add(v float64) {
	if v <= sketchLeast {
		s[sketchZero]++
		return
	}
	s[int32(math.Ceil(math.Log(v)/sketchLog))]++
}

func (s sketch) merge(o sketch) {
	for k, n := range o {
		s[k] += n
	}
}

// quantile is the q-quantile of what was added, NaN of nothing.
func (s sketch) quantile(q float64) float64 {
	var all int64
	for _, n := range s {
		all += n
	}
	if all == 0 {
		return math.NaN()
	}
	rank := int64(q * float64(all-1))
	for _, k := range slices.Sorted(maps.Keys(s)) {
		if rank -= s[k]; rank < 0 {
			if k == sketchZero {
				return 0
			}
			return math.Exp((float64(k) - 0.5) * sketchLog)
		}
	}
	panic("unreachable: the rank is below the count")
}
