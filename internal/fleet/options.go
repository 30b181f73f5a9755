package fleet

import (
	"fmt"
	"math"
)

// Options are mechanisms that real engines may have and a fitted step model
// may not: worlds in which a router's prior is wrong in kind, not only in
// number. The zero value is an engine without any of them, but for reading
// what sequences share once.
type Options struct {
	// AsyncScheduling schedules a step while the one before it runs: a request
	// that came meanwhile joins one step later, and one that has ended costs
	// one more step.
	AsyncScheduling bool

	// Acceptance is the mean number of tokens a decode step yields, by class
	// of request, 1 for classes not listed: speculative decoding.
	Acceptance map[string]float64

	// LongPrefillTokens is the most prompt tokens of one request in one step;
	// 0: as many as the budget leaves.
	LongPrefillTokens int

	// Ranks is the number of data-parallel engines behind the endpoint, each
	// with a line and a cache of its own; 0: 1. Only a world has ranks.
	Ranks int

	// OffloadTokens is the size of a second cache, in host memory, for what
	// the KV cache evicts; 0: none.
	OffloadTokens int
	// OffloadSeconds is the time to load one token back from it.
	OffloadSeconds float64

	// SeparateReads lets every decoding sequence read its whole context. By
	// default a block that several sequences share is read once, as cascade
	// attention does: measured times of shared prompts (36 to 48 ms a token
	// on 6,000 shared tokens) fit that, and not the sum (75 ms).
	SeparateReads bool

	// LiveMetrics publishes numbers as they are instead of at step ends.
	LiveMetrics bool
}

func (o *Options) check(random bool) error {
	for class, mean := range o.Acceptance {
		if !(mean >= 1) || mean > 64 {
			return fmt.Errorf("acceptance of class %q is %v: want 1 to 64 tokens a step", class, mean)
		}
		if mean != math.Trunc(mean) && !random {
			return fmt.Errorf("acceptance of class %q is %v but the engine was given no random stream", class, mean)
		}
	}
	if o.LongPrefillTokens < 0 || o.Ranks < 0 || o.OffloadTokens < 0 || !(o.OffloadSeconds >= 0) {
		return fmt.Errorf("long prefill %d tokens, %d ranks, offload %d tokens at %v s: want none below 0", o.LongPrefillTokens, o.Ranks, o.OffloadTokens, o.OffloadSeconds)
	}
	return nil
}
