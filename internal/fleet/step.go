package fleet

import "time"

// minStep keeps a profile without fixed cost from stepping in no time.
const minStep = time.Microsecond

// batch is what one step computes.
type batch struct {
	budget   int     // tokens left
	prefill  int     // prompt tokens, and tokens recomputed after preemption
	attended float64 // sum over prefill chunks of tokens x mean context
	decoding int     // sequences that gain a token from their last one
	kvRead   int     // context tokens those read
}

func (b *batch) add(s *sequence, tokens int) {
	b.budget -= tokens
	s.chunk = tokens
	if tokens == 1 && s.generated > 0 && s.computed+1 == s.tokens() {
		b.decoding++
		b.kvRead += s.tokens()
		return
	}
	b.prefill += tokens
	b.attended += float64(tokens) * (float64(s.computed) + float64(tokens)/2)
}

// startStep schedules the next step. Some request must wait or run; the check
// in Submit makes sure that one can always be scheduled: the running request
// that arrived first can take the blocks of all others, and when none runs all
// blocks are free.
func (e *Engine) startStep() {
	b := batch{budget: e.profile.MaxBatchedTokens}
	before := e.counts.Preemptions
	for i := 0; i < len(e.running) && b.budget > 0; i++ {
		s := e.running[i]
		tokens := min(s.tokens()-s.computed, b.budget)
		if e.makeRoom(s, tokens) {
			b.add(s, tokens)
		}
	}
	if e.counts.Preemptions == before {
		e.admit(&b)
	}
	e.stepTokens = e.profile.MaxBatchedTokens - b.budget
	e.stepping = true
	e.stepEnd = e.clock + e.stepTime(b)
}

// makeRoom reserves blocks for the next tokens of s, preempting from the back
// of the batch. It returns false when s itself had to go.
func (e *Engine) makeRoom(s *sequence, tokens int) bool {
	for e.blocksFor(s.computed+tokens)-len(s.blocks) > e.cache.free {
		if e.preempt() == s {
			return false
		}
	}
	e.reserve(s, tokens)
	return true
}

// admit moves waiting requests into the batch while everything lasts.
func (e *Engine) admit(b *batch) {
	for e.waiting.len() > 0 && b.budget > 0 && len(e.running) < e.profile.MaxNumSeqs {
		s := e.waiting.front()
		// The last token is always computed: its result is the next token.
		hits := e.cache.match(e.matched[:0], s, (s.tokens()-1)/e.profile.BlockTokens)
		e.matched = hits
		found := len(hits) * e.profile.BlockTokens
		tokens := min(s.tokens()-found, b.budget)
		if e.blocksFor(found+tokens)-len(hits)+e.cache.idle(hits) > e.cache.free {
			return
		}
		e.waiting.popFront()
		e.cache.hold(hits)
		if s.blocks == nil {
			s.blocks = make([]int32, 0, e.blocksFor(s.Prompt.Tokens+s.output.Tokens))
		}
		s.blocks = append(s.blocks, hits...)
		s.sealed, s.computed, s.running = len(hits), found, true
		if !s.admitted {
			s.admitted, s.cached = true, found
			e.counts.PrefixQueryTokens += int64(s.Prompt.Tokens)
			e.counts.PrefixHitTokens += int64(found)
		}
		e.running = append(e.running, s)
		e.reserve(s, tokens)
		b.add(s, tokens)
	}
}

// reserve takes the blocks that s needs for its next tokens, which must be
// free, and makes those findable that these tokens fill.
func (e *Engine) reserve(s *sequence, tokens int) {
	for need := e.blocksFor(s.computed + tokens); len(s.blocks) < need; {
		s.blocks = append(s.blocks, e.cache.take())
	}
	for full := (s.computed + tokens) / e.profile.BlockTokens; s.sealed < full; s.sealed++ {
		if hash, ok := s.hash(s.sealed); ok {
			e.cache.seal(s.blocks[s.sealed], hash)
		}
	}
}

func (e *Engine) blocksFor(tokens int) int {
	return (tokens + e.profile.BlockTokens - 1) / e.profile.BlockTokens
}

func (e *Engine) stepTime(b batch) time.Duration {
	c := e.profile.Coefficients
	seconds := c.A + c.B*float64(b.prefill) + c.C*b.attended + c.D*float64(b.decoding) + c.E*float64(b.kvRead)
	if e.profile.NoiseStdDev > 0 {
		// A tenth is far outside what a few percent of noise draw; it keeps time positive.
		seconds *= max(0.1, 1+e.profile.NoiseStdDev*e.noise.NormFloat64())
	}
	return max(minStep, time.Duration(seconds*e.slow*float64(time.Second)))
}
