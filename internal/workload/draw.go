package workload

import (
	"math"
	"math/rand/v2"
	"sort"

	"github.com/spillway-llm/spillway/internal/splitmix"
)

// lengths is a distribution of whole numbers, clipped to [least, most].
type lengths struct {
	least, most float64
	draw        func(*rand.Rand) float64
	mean        float64 // after clipping where that is known: of all but lognormals
}

func fixed(v float64) lengths {
	return lengths{least: v, most: v, mean: v, draw: func(*rand.Rand) float64 { return v }}
}

func uniform(least, most float64) lengths {
	return lengths{least: least, most: most, mean: (least + most) / 2, draw: func(r *rand.Rand) float64 { return least + r.Float64()*(most-least) }}
}

func normal(mean, sd, least, most float64) lengths {
	// The mean of a clipped normal: both tails sit on their bounds.
	below, above := (least-mean)/sd, (most-mean)/sd
	cdf := func(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }
	density := func(z float64) float64 { return math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) }
	clipped := least*cdf(below) + most*(1-cdf(above)) + mean*(cdf(above)-cdf(below)) - sd*(density(above)-density(below))
	return lengths{least: least, most: most, mean: clipped, draw: func(r *rand.Rand) float64 { return mean + sd*r.NormFloat64() }}
}

// lognormal is least plus a lognormal, which together have this mean and
// standard deviation before clipping.
func lognormal(mean, sd, least, most float64) lengths {
	ratio := sd / (mean - least)
	variance := math.Log1p(ratio * ratio)
	mu := math.Log(mean-least) - variance/2
	return lengths{least: least, most: most, mean: mean, draw: func(r *rand.Rand) float64 {
		return least + math.Exp(mu+math.Sqrt(variance)*r.NormFloat64())
	}}
}

// sample draws a whole number; of the zero lengths it is 0.
func (l lengths) sample(r *rand.Rand) int {
	if l.draw == nil {
		return 0
	}
	return int(math.Round(min(max(l.draw(r), l.least), l.most)))
}

// popularity is a distribution over things, as running sums that end with 1.
type popularity []float64

// zipf makes the k-th of n things, from 1, k^-exponent times as popular as
// the first.
func zipf(n int, exponent float64) popularity {
	p := make(popularity, n)
	sum := 0.0
	for i := range p {
		sum += math.Pow(float64(i+1), -exponent)
		p[i] = sum
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

func (p popularity) sample(r *rand.Rand) int {
	u := r.Float64()
	return min(sort.SearchFloat64s(p, u), len(p)-1)
}

// stream returns the source of chance that the key names.
func stream(key uint64) *rand.Rand { return rand.New(rand.NewPCG(key, splitmix.Mix(key))) }
