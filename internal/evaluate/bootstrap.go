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

func (s *share) add(o share) {
	s.sum += o.sum
	s.n += o.n
}

// Bootstrap resamples blocks of neighbouring rows (Künsch 1989) and gives the
// mean of the known values with its interval. Values stand in order of time.
// The same values and seed give the same interval.
func Bootstrap(values []float64, seed uint64) Interval {
	all := make([]share, len(values))
	for i, v := range values {
		if v == v {
			all[i] = share{v, 1}
		}
	}
	return blockwise(all, seed)
}

// blockwise gathers neighbours into blocks and resamples those.
func blockwise(rows []share, seed uint64) Interval {
	per := max(1, len(rows)/blocks)
	var all []share
	for from := 0; from < len(rows); from += per {
		var b share
		for _, r := range rows[from:min(from+per, len(rows))] {
			b.add(r)
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
		total.add(b)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	means := make([]float64, resamples)
	for i := range means {
		var s share
		for range all {
			s.add(all[rng.IntN(len(all))])
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

// shares is a ratio of sums over time, in bounded memory: the shares of
// neighbouring rows are gathered, of twice as many whenever there are too many.
type shares struct {
	per  int // rows that one gathers
	last int // rows in the last one
	all  []share
}

// mostShares is twice as many as are left after gathering.
const mostShares = 1024

func (s *shares) add(o share) {
	if s.per == 0 {
		s.per = 1
	}
	if len(s.all) == 0 || s.last == s.per {
		if len(s.all) == mostShares {
			for i := range s.all[:mostShares/2] {
				b := s.all[2*i]
				b.add(s.all[2*i+1])
				s.all[i] = b
			}
			s.all, s.per = s.all[:mostShares/2], 2*s.per
		}
		s.all, s.last = append(s.all, share{}), 0
	}
	s.all[len(s.all)-1].add(o)
	s.last++
}
