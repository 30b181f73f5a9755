package offpolicy

import (
	"math"
	"slices"
)

// A Bucket is a range of probabilities or weights, and how much lies in it.
type Bucket struct {
	From   float64 `json:"from"` // above this, but for a first one that is 0 alone
	To     float64 `json:"to"`
	Target float64 `json:"target"` // of what the target does, for each decision
	Logged float64 `json:"logged"` // of what the log's policy does
}

// The upper ends of the buckets.
var (
	probabilityEnds = []float64{0, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 0.9, 0.999, 1}
	weightEnds      = []float64{0, 0.1, 0.3, 0.9, 1.1, 3, 10, 30, 100, 300, 1000, math.Inf(1)}
)

// overlap is how far what the target does was seen.
type overlap struct {
	samples     int64
	missing     float64 // probability of the target to do what is never seen
	withMissing int64   // samples in which there is any
	largest     float64 // weight
	common      float64 // probability that both do the same at best: 1 - total variation
	done        float64 // by the target
	target      [12]float64
	logged      [12]float64
	decisions   [12]float64 // by weight
	weights     [12]float64 // their sum
}

func bucketOf(ends []float64, v float64) int {
	i, _ := slices.BinarySearch(ends, v)
	return min(i, len(ends)-1)
}

func (o *overlap) add(s *Sample) {
	o.samples++
	missing := false
	for i := range s.Actions {
		a := &s.Actions[i]
		if a.Target == 0 && a.Logged == 0 {
			continue
		}
		o.common += min(a.Target, a.Logged)
		o.done += a.Target
		k := bucketOf(probabilityEnds, a.Logged)
		o.target[k] += a.Target
		o.logged[k] += a.Logged
		if a.Logged == 0 {
			o.missing += a.Target
			missing = true
		}
	}
	if missing {
		o.withMissing++
	}
	if s.Chosen >= 0 {
		w := s.Actions[s.Chosen].weight()
		o.largest = max(o.largest, w)
		k := bucketOf(weightEnds, w)
		o.decisions[k]++
		o.weights[k] += w
	}
}

func (o *overlap) missingShare() float64 {
	if o.done == 0 {
		return 0
	}
	return o.missing / o.done
}

// An Overlap says how far what the target does was seen in the log. It is of
// the decisions that were left to chance.
type Overlap struct {
	Effective float64  `json:"effective_samples"`
	Largest   float64  `json:"largest_weight"`
	Missing   float64  `json:"missing"`           // share of what the target does that the log never does
	Without   float64  `json:"decisions_missing"` // share of the decisions in which there is any of that
	Common    float64  `json:"common"`            // share of the decisions in which both do the same, at best
	ByChance  []Bucket `json:"by_probability"`    // by the probability that the log's policy did it
	ByWeight  []Bucket `json:"by_weight"`         // target/logged probability of what was done
}

// Overlap is that of the samples so far.
func (e *Estimators) Overlap() Overlap {
	o := &e.overlap
	out := Overlap{Effective: e.EffectiveSamples(), Largest: o.largest, Missing: o.missingShare(), ByChance: []Bucket{}, ByWeight: []Bucket{}}
	if o.samples == 0 {
		return out
	}
	n := float64(o.samples)
	out.Without, out.Common = float64(o.withMissing)/n, o.common/n
	from := 0.0
	for k, to := range probabilityEnds {
		out.ByChance = append(out.ByChance, Bucket{from, to, o.target[k] / n, o.logged[k] / n})
		from = to
	}
	from = 0
	for k, to := range weightEnds {
		if math.IsInf(to, 1) {
			to = max(o.largest, from)
		}
		out.ByWeight = append(out.ByWeight, Bucket{from, to, o.weights[k] / n, o.decisions[k] / n})
		from = to
	}
	return out
}
