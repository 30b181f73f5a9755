package fit

import "github.com/spillway-llm/spillway/internal/physics"

// The least and the most that attention to one token of context costs, as a
// share of a prefill token: by arithmetic 1/53,000 for Llama 70B, 1/30,000 for
// Qwen3 32B and 1/14,000 for Qwen3 235B-A22B, if attention runs as fast as
// everything else. Without these bounds, rows of two prompt lengths cannot tell
// a slow engine from an expensive context, and prompts longer than those
// measured are predicted wildly; with them, lengths that were left out are
// predicted better than with twice as wide ones.
const (
	leastContext = 1.0 / 60_000
	mostContext  = 1.0 / 14_000
)

// prefill is what so many prefills of a whole prompt count for the two
// parameters of prefill: a token with the cheapest context and one with the
// dearest. Every non-negative mix of the two lies between the bounds.
func prefill(prompt, times float64) (least, most float64) {
	return chunk(prompt, prompt*prompt/2, times)
}

// chunk is the same of so many tokens, which attend to a sum of so many.
func chunk(tokens, attended, times float64) (least, most float64) {
	return times * (tokens + leastContext*attended), times * (tokens + mostContext*attended)
}

// coefficients undoes the split of prefill.
func coefficients(a, least, most, d, e float64) physics.Coefficients {
	return physics.Coefficients{A: a, B: least + most, C: leastContext*least + mostContext*most, D: d, E: e}
}

// PeakPrefill is the prefill throughput, in tokens/s, of prompts that fill one
// step of so many tokens each: B/T(B), the number that llm-d's matched
// configurations call the peak prefill throughput.
func PeakPrefill(c physics.Coefficients, maxBatchedTokens int) float64 {
	n := float64(maxBatchedTokens)
	return n / (c.A + float64(c.Work(n, n)))
}

// work is the prefill time of what chunk returned.
func work(c physics.Coefficients, least, most float64) float64 {
	dear := (c.C - leastContext*c.B) / (mostContext - leastContext)
	return least*(c.B-dear) + most*dear
}
