package loadgen

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/trace"
)

// Workload is a synthetic workload: requests of a kind that is common, with
// the prefixes that they share. It is a first approximation: a conversation's
// turns grow one prompt, and come at times that do not depend on the answers.
type Workload struct {
	// Name is one of Workloads().
	Name string
	// Rate is the mean number of requests a second of the open loop, which is
	// Poisson by conversation. 0 means the workload's own: for b2b-saas the
	// published ladder of rates, which ends after 24 minutes; for the others
	// one that a handful of endpoints can serve.
	Rate float64
	// Seed makes the requests: equal seeds, equal requests.
	Seed uint64
}

// Lengths that workloads deal in, in tokens.
const (
	block     = trace.MooncakeBlock
	maxLength = 131_072 // prompt and output together: the published max-model-len
)

// shape says what the requests of one workload look like. Lengths are in
// tokens; prefixes are rounded to whole blocks.
type shape struct {
	name   string
	share  float64 // of the conversations of a mix
	system int     // prefix that all conversations share

	groups  int     // number of further prefixes that some conversations share
	skew    float64 // Zipf exponent of their popularity; 0: all alike
	context dist    // length of a group's prefix, or of a conversation's own
	repeats int     // number of different questions to a group; 0: no question comes twice

	turns         dist
	input, output dist // of one turn
	think         time.Duration
	rate          float64
	stages        []stage
}

// stage is a part of a ladder of rates.
type stage struct {
	rate    float64 // requests a second
	seconds float64
}

// pause is what the published b2b-saas ladder leaves between stages, in
// seconds.
const pause = 30

// The first three are the published definitions (llm-d benchmark workloads as
// of early 2026: code-generation, reasoning, b2b-saas), run there in a closed
// loop except b2b-saas; their lengths are theirs, the open-loop rates are ours.
// The others are chosen here and measured nowhere.
var shapes = []shape{
	{
		name: "code-generation", system: 3000,
		context: uniform(15_000, 100_000), turns: normal(6, 3.5, 2, 20),
		input: lognormal(1500, 1200, 100, 10_000), output: lognormal(800, 600, 50, 4000),
		rate: 0.5,
	},
	{
		name: "reasoning", system: 250, turns: fixed(1),
		input: lognormal(1000, 800, 100, 5000), output: lognormal(8000, 6500, 500, 32_000),
		rate: 0.5,
	},
	{
		name: "b2b-saas", groups: 150, context: fixed(6000), repeats: 5, turns: fixed(1),
		input: fixed(1200), output: fixed(1000),
		stages: []stage{
			{15, 50}, {3, 20}, {10, 20}, {15, 20}, {20, 38}, {22, 34}, {25, 30}, {30, 25}, {35, 21},
			{40, 38}, {43, 36}, {46, 33}, {49, 30}, {52, 29}, {55, 27}, {57, 26}, {60, 25},
		},
	},
	{
		name: "interactive-chat", system: 512, turns: normal(4, 3, 1, 12),
		input: lognormal(250, 300, 20, 2000), output: lognormal(300, 250, 20, 1500),
		think: 20 * time.Second, rate: 5,
	},
	{
		name: "rag", system: 512, groups: 400, skew: 1.1, context: fixed(6144), turns: fixed(1),
		input: lognormal(200, 150, 20, 1000), output: lognormal(250, 200, 20, 1000),
		rate: 3,
	},
}

// mixes are workloads put together from others, by share of conversations.
var mixes = map[string][]shape{
	"mixed": {
		shapeOf("interactive-chat", 0.5), shapeOf("rag", 0.3), shapeOf("reasoning", 0.1), shapeOf("code-generation", 0.1),
	},
}

const mixedRate = 3

func shapeOf(name string, share float64) shape {
	for _, s := range shapes {
		if s.name == name {
			s.share = share
			return s
		}
	}
	panic("no workload " + name)
}

// Workloads returns the names of the synthetic workloads.
func Workloads() []string {
	var names []string
	for _, s := range shapes {
		names = append(names, s.name)
	}
	return append(names, "mixed")
}

// Items returns the workload's requests in order of time: without end, but for
// the ladder of b2b-saas.
func (w Workload) Items() (iter.Seq[trace.Item], error) {
	if w.Rate < 0 || math.IsNaN(w.Rate) || math.IsInf(w.Rate, 0) {
		return nil, fmt.Errorf("rate %g: expected 0 (the workload's own) or more", w.Rate)
	}
	parts, rate := mixes[w.Name], float64(mixedRate)
	if parts == nil {
		for _, s := range shapes {
			if s.name == w.Name {
				parts, rate = []shape{s}, s.rate
			}
		}
	}
	if parts == nil {
		return nil, fmt.Errorf("workload %q is not known: expected one of %s", w.Name, strings.Join(Workloads(), ", "))
	}
	stages := parts[0].stages
	if w.Rate > 0 {
		stages, rate = nil, w.Rate
	}
	if stages == nil {
		stages = []stage{{rate, math.Inf(1)}}
	}
	return func(yield func(trace.Item) bool) {
		g := newGenerator(w.Seed, parts, stages)
		for item, ok := g.next(); ok; item, ok = g.next() {
			if !yield(item) {
				return
			}
		}
	}, nil
}

// dist is a distribution of lengths or numbers, clipped to [least, most].
type dist struct {
	least, most float64
	draw        func(*rand.Rand) float64
	mean        float64
}

func fixed(v float64) dist {
	return dist{least: v, most: v, mean: v, draw: func(*rand.Rand) float64 { return v }}
}

func uniform(least, most float64) dist {
	return dist{least: least, most: most, mean: (least + most) / 2, draw: func(r *rand.Rand) float64 { return least + r.Float64()*(most-least) }}
}

func normal(mean, sd, least, most float64) dist {
	return dist{least: least, most: most, mean: mean, draw: func(r *rand.Rand) float64 { return mean + sd*r.NormFloat64() }}
}

// lognormal has this mean and standard deviation itself, not its logarithm.
func lognormal(mean, sd, least, most float64) dist {
	variance := math.Log1p(sd * sd / (mean * mean))
	mu := math.Log(mean) - variance/2
	return dist{least: least, most: most, mean: mean, draw: func(r *rand.Rand) float64 { return math.Exp(mu + math.Sqrt(variance)*r.NormFloat64()) }}
}

// sample draws a whole number; of the zero dist it is 0.
func (d dist) sample(r *rand.Rand) int {
	if d.draw == nil {
		return 0
	}
	return int(math.Round(min(max(d.draw(r), d.least), d.most)))
}
