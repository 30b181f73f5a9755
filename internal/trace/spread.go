package trace

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Rounded reports whether most of the items, which must be sorted by time,
// share their time with another: the trace's clock was coarse. Mooncake's
// conversation trace, for one, has a time every 3 s.
func Rounded(items []Item) bool {
	shared := 0
	for i := range items {
		if i > 0 && items[i].At == items[i-1].At || i+1 < len(items) && items[i].At == items[i+1].At {
			shared++
		}
	}
	return shared > len(items)/2
}

// Spread returns the items, which must be sorted by time, with those of one
// time moved to random moments before the next time, their order kept: as they
// may have arrived before the clock was rounded. The last ones move within the
// gap before theirs.
func Spread(items []Item, rng *rand.Rand) []Item {
	out := slices.Clone(items)
	var gap time.Duration
	for from := 0; from < len(out); {
		to := from + 1
		for to < len(out) && out[to].At == out[from].At {
			to++
		}
		if to < len(out) {
			gap = out[to].At - out[from].At
		}
		offsets := make([]time.Duration, to-from)
		for i := range offsets {
			offsets[i] = time.Duration(rng.Float64() * float64(gap))
		}
		slices.Sort(offsets)
		for i, offset := range offsets {
			out[from+i].At += offset
		}
		from = to
	}
	return out
}
