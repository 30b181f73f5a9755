package evaluate

import (
	"math/rand/v2"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Interval is a mean with its 95 % interval.
type Interval struct {
	Mean feature.Number `json:"mean"`
	Low  feature.Number `json:"low"`
	High feature.Number `json:"high"`
}

// unknownInterval is that of nothing.
var unknownInterval = Interval{feature.Number(feature.Unknown), feature.Number(feature.Unknown), feature.Number(feature.Unknown)}

const (
	resamples = 1000
	blocks    = 20 // of neighbouring rows, so that what one moment made alike stays together
)

// A share is part of a ratio of two sums: what a block of neighbouring rows
// adds to each.
type share struct{ sum, n float64 }

// Bootstrap resamples blocks of neighbouring rows (Künsch 1989) and gives the
// mean of the known values with its interval. Values stand in order of time.
// The same values and seed give the same interval.
func Bootstrap(values []float64, seed uint64) Interval {
	per := max(1, len(values)/blocks)
	var all []share
	for from := 0; from < len(values); from += per {
		var b share
		for _, v := range values[from:min(from+per, len(values))] {
			if v == v {
				b.sum += v
				b.n++
			}
		}
		all = append(all, b)
	}
	return resample(all, seed)
}

// resample is the ratio of the sums of all blocks, with the interval that
// drawing as many blocks again and again gives. Blocks of nothing are left out.
func resample(all []share, seed uint64) Interval {
	all = slices.DeleteFunc(all, func(b share) bool { return b.n == 0 })
	if len(all) == 0 {
		return unknownInterval
	}
	var total share
	for _, b := range all {
		total.sum += b.sum
		total.n += b.n
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	means := make([]float64, resamples)
	for i := range means {
		var s share
		for range all {
			b := all[rng.IntN(len(all))]
			s.sum += b.sum
			s.n += b.n
		}
		means[i] = s.sum / s.n
	}
	slices.Sort(means)
	return Interval{
		Mean: feature.Number(total.sum / total.n),
		Low:  feature.Number(Quantile(means, 0.025)),
		High: feature.Number(Quantile(means, 0.975)),
	}
}
