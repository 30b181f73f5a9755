package policy

import (
	"cmp"
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Weights of weighted-blend: llm-d's default before the matched
// configurations (its "optimized baseline": prefix-cache-scorer 3,
// queue-scorer 2, kv-cache-utilization-scorer 2, no-hit-lru-scorer 2).
const (
	blendPrefix = 3
	blendQueue  = 2
	blendKV     = 2
	blendCold   = 2

	blendMost = blendPrefix + blendQueue + blendKV + blendCold
)

// weightedBlend takes the endpoint with the greatest weighted sum of four
// scores between 0 and 1, exact ties at random. The scores are those of the
// llm-d inference scheduler:
//
//   - prefix: the share of the prompt that is cached;
//   - queue: (greatest - own) / (greatest - least) of the requests waiting as
//     scraped; 1 where all are alike;
//   - KV: the share of the cache that is free, as scraped;
//   - cold turn: for a request that nobody holds a prefix of, see coldTurns;
//     for others the same everywhere.
//
// A number that is unknown scores 0. The cost is what the sum lacks of 9.
func weightedBlend(in *Input, out *Choice) {
	least, most := math.Inf(1), math.Inf(-1)
	for _, i := range out.eligible {
		if w := in.Candidates[i].Load.Scraped.Waiting; known(w) {
			least, most = min(least, w), max(most, w)
		}
	}
	for _, i := range out.eligible {
		c := &in.Candidates[i]
		score := blendPrefix * share(c.CachedTokens/in.Request.PromptTokens)
		switch w := c.Load.Scraped.Waiting; {
		case !known(w):
		case least == most:
			score += blendQueue
		default:
			score += blendQueue * share((most-w)/(most-least))
		}
		score += blendKV * share(1-c.Load.Scraped.KVUsed)
		out.Costs[i] = blendMost - score
	}
	if Cold(in) {
		out.coldTurns(in)
	} else {
		for _, i := range out.eligible {
			out.Costs[i] -= blendCold * 0.5
		}
	}
	out.least(out.eligible)
	out.Reason = Reason{Code: Blended, Cost: out.Costs[out.Index]}
}

// coldTurns scores the eligible candidates by how long ago each was last given
// a cold request: 1 for those that waited longest, falling evenly by place to
// 0. Those that never were share the first places and the best score, where
// llm-d ranks them by the order of its list; equal times share theirs too.
func (out *Choice) coldTurns(in *Input) {
	n := len(out.eligible)
	ago := func(i int) feature.Seconds {
		if a := in.Candidates[i].ColdAgo; !feature.IsUnknown(a) {
			return a
		}
		return feature.Seconds(math.Inf(1))
	}
	out.scratch = append(out.scratch[:0], out.eligible...)
	slices.SortFunc(out.scratch, func(i, j int) int { return cmp.Compare(ago(j), ago(i)) })
	place := 0
	for at, i := range out.scratch {
		if at > 0 && ago(i) != ago(out.scratch[at-1]) {
			place = at
		}
		out.Costs[i] -= blendCold * (1 - float64(place)/float64(max(n-1, 1)))
	}
}

// Cold reports whether no candidate holds any of the prompt. The endpoint that
// is given such a request must have its ColdAgo begin at 0.
func Cold(in *Input) bool {
	for i := range in.Candidates {
		if in.Candidates[i].CachedTokens > 0 {
			return false
		}
	}
	return true
}

// share clips v to between 0 and 1; an unknown one is 0.
func share(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return min(max(v, 0), 1)
}

// known reports whether v is a number that can be compared.
func known(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
