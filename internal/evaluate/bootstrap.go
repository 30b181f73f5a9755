package evaluate

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Interval is a mean with its 95 % interval.
type Interval struct {
	Mean feature.Number `json:"mean"`
	Low  feature.Number `json:"low"`
	High feature.Number `json:"high"`
}

// ofShare bounds the interval of a share by what a share can be.
func (i Interval) ofShare() Interval {
	i.Low, i.High = max(0, i.Low), min(1, i.High)
	return i
}

// unknownInterval is that of nothing.
var unknownInterval = Interval{feature.Number(feature.Unknown), feature.Number(feature.Unknown), feature.Number(feature.Unknown)}

const (
	resamples    = 1000
	mostBlocks   = 100 // of neighbouring rows
	fewestBlocks = 4
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
// What one moment made alike stays together: a block is three times as long as the
// rows' correlation lasts (see CorrelationTime), and the fewer blocks there are,
// the wider is the interval. The same values and seed give the same interval.
func Bootstrap(values []float64, seed uint64) Interval {
	all := make([]share, len(values))
	for i, v := range values {
		if v == v {
			all[i] = share{v, 1}
		}
	}
	return blockwise(all, seed)
}

// blockwise gathers neighbours into blocks and resamples those. Rows of nothing
// are left out.
func blockwise(rows []share, seed uint64) Interval {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r share) bool { return r.n == 0 })
	var total share
	for _, r := range rows {
		total.add(r)
	}
	// What each row moves the ratio by, but for a factor.
	pull := make([]float64, len(rows))
	for i, r := range rows {
		pull[i] = r.sum - total.sum/total.n*r.n
	}
	per := int(math.Ceil(3 * CorrelationTime(pull)))
	per = max(1, (len(rows)+mostBlocks-1)/mostBlocks, min(per, len(rows)/fewestBlocks))
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

// mostBins bounds what CorrelationTime costs.
const mostBins = 2048

// CorrelationTime is how many neighbouring values say no more than one
// independent one: 1 plus twice the sum of the autocorrelations, as far as
// pairs of them are positive and fall (Geyer 1992). Values stand in order of
// time and are known. It is at least 1, and too small by half where it is a
// tenth of the length: so short a series can't tell. Of a long series the means
// of neighbours are looked at, and by how much more they vary than they should.
func CorrelationTime(values []float64) float64 {
	n := len(values)
	per := (n + mostBins - 1) / mostBins
	if per <= 1 {
		return correlationTime(values)
	}
	bins := make([]float64, 0, mostBins)
	for from := 0; from+per <= n; from += per {
		bins = append(bins, Mean(values[from:from+per]))
	}
	excess := float64(per) * variance(bins) / variance(values)
	if !(excess > 0) {
		return 1
	}
	return max(1, excess*correlationTime(bins))
}

func variance(values []float64) float64 {
	mean, sum := Mean(values), 0.0
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return sum / float64(len(values))
}

func correlationTime(values []float64) float64 {
	n := len(values)
	mean, whole := Mean(values), variance(values)*float64(len(values))
	at := func(lag int) float64 {
		var sum float64
		for i := lag; i < n; i++ {
			sum += (values[i] - mean) * (values[i-lag] - mean)
		}
		return sum
	}
	if !(whole > 0) {
		return 1
	}
	time, least := 1.0, math.Inf(1)
	for lag := 1; lag < n/2; lag += 2 {
		pair := min(least, (at(lag)+at(lag+1))/whole)
		if pair <= 0 {
			break
		}
		time, least = time+2*pair, pair
	}
	return time
}

// resample is the ratio of the sums of all blocks, with the interval that
// drawing as many blocks again and again gives, widened for what few blocks
// don't tell as Student's t is against the normal distribution.
func resample(all []share, seed uint64) Interval {
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
	mean, few := total.sum/total.n, fewness(len(all))
	return Interval{
		Mean: feature.Number(mean),
		Low:  feature.Number(mean - few*(mean-Quantile(means, 0.025))),
		High: feature.Number(mean + few*(Quantile(means, 0.975)-mean)),
	}
}

// fewness is how much wider than the bootstrap's an interval from n blocks is.
func fewness(n int) float64 {
	if n < 2 {
		return 1
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}
	return t.Quantile(0.975) / distuv.UnitNormal.Quantile(0.975) * math.Sqrt(float64(n)/float64(n-1))
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
