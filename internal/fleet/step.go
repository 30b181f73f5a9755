package fleet

import (
	"slices"
	"time"
)

// minStep keeps a profile without fixed cost from stepping in no time.
const minStep = time.Microsecond

// batch is what one step computes.
type batch struct {
	budget   int     // tokens left
	prefill  int     // prompt tokens, and tokens recomputed after preemption
	attended float64 // sum over prefill chunks of tokens x mean context
	decoding int     // sequences that gain a token from their last one
	kvRead   int     // context tokens those read
	loaded   int     // tokens brought back from the offload tier
}

// decodes reports whether the next step of s computes its last token alone.
func (s *sequence) decodes() bool { return s.generated > 0 && s.computed+1 == s.tokens() }

// addPrefill schedules tokens of s that are not its last one alone.
func (b *batch) addPrefill(s *sequence, tokens int) {
	b.budget -= tokens
	s.chunk = tokens
	b.prefill += tokens
	b.attended += float64(tokens) * (float64(s.computed) + float64(tokens)/2)
}

// addDecode schedules the last token of s and those guessed after it.
func (b *batch) addDecode(s *sequence, tokens int) {
	b.budget -= tokens
	s.chunk, s.drafted = tokens, tokens-1
	b.decoding++
	b.kvRead += s.tokens()
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
		if s.decodes() {
			if tokens := e.guess(s, b.budget); e.makeRoom(s, tokens) {
				b.addDecode(s, tokens)
			}
		} else if tokens := e.portion(s.tokens()-s.computed, b.budget); e.makeRoom(s, tokens) {
			b.addPrefill(s, tokens)
		}
	}
	if e.counts.Preemptions == before {
		e.admit(&b)
	}
	e.stepTokens = e.profile.MaxBatchedTokens - b.budget
	e.stepping = true
	b.decoding += e.late.decoding
	b.kvRead += e.late.kvRead
	e.late.decoding, e.late.kvRead = 0, 0
	e.stepBegan, e.stepEnd = e.clock, e.clock+e.stepTime(b)
}

// portion is how many of the tokens left of a prompt one step computes.
func (e *Engine) portion(left, budget int) int {
	if most := e.options.LongPrefillTokens; most > 0 {
		left = min(left, most)
	}
	return min(left, budget)
}

// guess is how many tokens a decode step of s yields: 1, and those that
// speculation gets right.
func (e *Engine) guess(s *sequence, budget int) int {
	if s.accept <= 1 {
		return 1
	}
	n := int(s.accept)
	if part := s.accept - float64(n); part > 0 && e.noise.Float64() < part {
		n++
	}
	return min(n, budget, s.output-s.generated)
}

// makeRoom reserves blocks for the next tokens of s, preempting from the back
// of the batch. It returns false when s itself had to go.
func (e *Engine) makeRoom(s *sequence, tokens int) bool {
	size := e.profile.BlockTokens
	if in := s.computed % size; in > 0 && in+tokens < size {
		return true // inside its last block, and that will not be full
	}
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
	size := e.profile.BlockTokens
	for e.waiting.len() > 0 && b.budget > 0 && len(e.running) < e.profile.MaxNumSeqs {
		s := e.waiting.front()
		// The last token is always computed: its result is the next token.
		limit := (s.tokens() - 1) / size
		hits, idle := e.cache.look(s, limit)
		loaded := e.cache.offload.match(s, len(hits), limit)
		found := (len(hits) + loaded) * size
		tokens := e.portion(s.tokens()-found, b.budget)
		if e.blocksFor(found+tokens)-len(hits)+idle > e.cache.free {
			return
		}
		e.waiting.popFront()
		e.cache.hold(hits)
		e.cache.offload.use(s, len(hits), loaded)
		b.loaded += loaded * size
		s.blocks = append(slices.Grow(s.blocks, e.blocksFor(s.prompt+s.output)), hits...)
		s.sealed, s.computed, s.running = len(hits), found, true
		if !s.admitted {
			s.admitted, s.cached = true, found
			e.counts.PrefixQueryTokens += int64(s.prompt)
			e.counts.PrefixHitTokens += int64(found)
		}
		e.cache.lookAway()
		e.running = append(e.running, s)
		e.reserve(s, tokens)
		if s.decodes() { // preempted, and all of it but the last token is still there
			b.addDecode(s, tokens)
		} else {
			b.addPrefill(s, tokens)
		}
	}
}

// reserve takes the blocks that s needs for its next tokens, which must be
// free, and makes those findable that these tokens fill.
func (e *Engine) reserve(s *sequence, tokens int) {
	need, full := e.blocksFor(s.computed+tokens), (s.computed+tokens)/e.profile.BlockTokens
	if n := need - len(s.blocks); n > 1 {
		e.cache.readAhead(n)
		for i := s.sealed; i < full; i++ {
			if hash, ok := s.hash(i); ok {
				e.cache.index.readAhead(hash)
			}
		}
	}
	for len(s.blocks) < need {
		s.blocks = append(s.blocks, e.cache.take())
	}
	for ; s.sealed < full; s.sealed++ {
		if hash, ok := s.hash(s.sealed); ok {
			e.cache.seal(s.blocks, s.sealed, hash)
		}
	}
}

func (e *Engine) blocksFor(tokens int) int {
	return (tokens + e.profile.BlockTokens - 1) / e.profile.BlockTokens
}

func (e *Engine) stepTime(b batch) time.Duration {
	c := e.profile.Coefficients
	read := float64(b.kvRead)
	if !e.options.SeparateReads {
		read *= e.cache.shared()
	}
	e.worked.add(&e.step, 1)
	e.step = Work{1, float64(b.prefill), b.attended, float64(b.decoding), read}
	seconds := c.A + c.B*float64(b.prefill) + c.C*b.attended + c.D*float64(b.decoding) + c.E*read
	seconds += float64(b.loaded) * e.options.OffloadSeconds
	if e.profile.NoiseStdDev > 0 {
		// A tenth is far outside what a few percent of noise draw; it keeps time positive.
		seconds *= max(0.1, 1+e.profile.NoiseStdDev*e.noise.NormFloat64())
	}
	return max(minStep, time.Duration(seconds*e.slow*float64(time.Second)))
}
