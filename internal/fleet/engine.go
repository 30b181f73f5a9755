package fleet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/spillway-llm/spillway/internal/physics"
)

// Config describes one engine.
type Config struct {
	Profile   physics.Profile
	MaxTokens int           // context length of the LLM, prompt and output; 0: what the KV cache holds
	Overhead  time.Duration // holds every request this long before it joins the line
	Noise     *rand.Rand    // the engine's own stream; required when anything is left to chance
	Options   Options
}

// Engine is one continuous-batching engine in virtual time. Times are
// durations since an origin of the caller's choice. It is not safe for
// concurrent use.
//
// The caller submits requests and repeatedly advances the engine to the time
// of its next event.
type Engine struct {
	profile   physics.Profile
	maxTokens int
	overhead  time.Duration
	noise     *rand.Rand
	slow      float64
	options   Options

	clock     time.Duration
	last      time.Duration // latest submission
	submitted uint64
	live      map[uint64]*sequence
	arriving  queue // submitted, not yet in line
	waiting   queue
	running   []*sequence
	cache     *cache

	stepping   bool
	stepBegan  time.Duration
	stepEnd    time.Duration
	stepTokens int
	late       struct{ decoding, kvRead int } // of sequences that ended and were already scheduled

	worked, step Work // in steps that have ended, and in the last one

	counts  Metrics // as of now
	visible Metrics // as last published
	events  []Event
	free    []*sequence // to be used again
}

// New makes an idle engine at time 0.
func New(cfg Config) (*Engine, error) {
	p := cfg.Profile
	if err := p.Check(); err != nil {
		return nil, err
	}
	blocks := p.KVCapacityTokens / p.BlockTokens
	switch {
	case blocks < 1:
		return nil, fmt.Errorf("profile %s: kv_capacity_tokens is %d: want at least one block of %d", p.Name, p.KVCapacityTokens, p.BlockTokens)
	case !(p.NoiseStdDev >= 0 && p.NoiseStdDev < 1):
		return nil, fmt.Errorf("profile %s: noise_std_dev is %v: want 0 to 1", p.Name, p.NoiseStdDev)
	case p.NoiseStdDev > 0 && cfg.Noise == nil:
		return nil, fmt.Errorf("profile %s has noise but the engine was given no random stream", p.Name)
	case cfg.Overhead < 0:
		return nil, fmt.Errorf("request overhead is %v: want 0 or more", cfg.Overhead)
	}
	if err := cfg.Options.check(cfg.Noise != nil); err != nil {
		return nil, fmt.Errorf("profile %s: %w", p.Name, err)
	}
	capacity := blocks * p.BlockTokens
	if cfg.MaxTokens <= 0 || cfg.MaxTokens > capacity {
		cfg.MaxTokens = capacity
	}
	return &Engine{
		profile:   p,
		maxTokens: cfg.MaxTokens,
		overhead:  cfg.Overhead,
		noise:     cfg.Noise,
		slow:      1,
		options:   cfg.Options,
		live:      make(map[uint64]*sequence),
		cache:     newCache(blocks, cfg.Options.OffloadTokens/p.BlockTokens),
	}, nil
}

// MaxTokens is the most tokens, prompt and output, that a request may have.
func (e *Engine) MaxTokens() int { return e.maxTokens }

// Blocks is the number of blocks in the KV cache.
func (e *Engine) Blocks() int { return e.cache.total() }

// Metrics returns what the engine last published.
func (e *Engine) Metrics() Metrics {
	if e.options.LiveMetrics {
		return e.current()
	}
	return e.visible
}

// current is what the engine would publish now.
func (e *Engine) current() Metrics {
	m := e.counts
	m.Waiting, m.Running, m.KVUsed = e.waiting.len(), len(e.running), e.cache.used()
	return m
}

// SetSlowFactor makes every step that starts from now on take factor times as
// long. 1 is normal.
func (e *Engine) SetSlowFactor(factor float64) error {
	if !(factor > 0) || math.IsInf(factor, 0) {
		return fmt.Errorf("slow factor is %v: want a positive number", factor)
	}
	e.slow = factor
	return nil
}

// Submit gives the engine a request at time now, which must not lie before an
// earlier submission or before the time the engine was advanced to. The error
// wraps ErrTooLong if the engine could never hold it.
func (e *Engine) Submit(now time.Duration, r *Request) error {
	if now < e.clock || now < e.last {
		return fmt.Errorf("request %d submitted at %v, engine is at %v: time goes back", r.ID, now, max(e.clock, e.last))
	}
	if err := r.check(e.profile.BlockTokens); err != nil {
		return err
	}
	if e.live[r.ID] != nil {
		return fmt.Errorf("request %d is already live", r.ID)
	}
	if n := r.Prompt.Tokens + r.MaxTokens; n > e.maxTokens {
		return fmt.Errorf("%w: %d prompt tokens and up to %d generated tokens, room for %d", ErrTooLong, r.Prompt.Tokens, r.MaxTokens, e.maxTokens)
	}
	s := e.fresh()
	s.Request, s.order, s.enters = r, e.submitted, now+e.overhead
	s.prompt, s.output, s.accept = r.Prompt.Tokens, r.output.Tokens, e.options.Acceptance[r.Class]
	s.tag = r.tag
	e.last = now
	e.submitted++
	e.live[r.ID] = s
	e.arriving.pushBack(s)
	return nil
}

// Cancel ends a request and reports whether it was live. No event follows for
// it. If it is in the batch, its blocks are freed when the current step ends.
func (e *Engine) Cancel(id uint64) bool {
	s := e.live[id]
	if s == nil || s.cancelled {
		return false
	}
	if s.running {
		s.cancelled = true
		return true
	}
	if !e.arriving.remove(s) {
		e.waiting.remove(s)
	}
	e.end(s)
	e.counts.Cancelled++
	return true
}

// NextEvent returns when the engine next does something, false if it is idle.
func (e *Engine) NextEvent() (time.Duration, bool) {
	if e.stepping {
		return e.stepEnd, true
	}
	if e.arriving.len() > 0 {
		return max(e.clock, e.arriving.front().enters), true
	}
	return 0, false
}

// Advance runs the engine up to and including time now and returns what
// happened, in order of time. The slice is valid until the next call.
func (e *Engine) Advance(now time.Duration) []Event { return e.advance(now, e.events) }

// advance is Advance with memory for the events.
func (e *Engine) advance(now time.Duration, memory []Event) []Event {
	e.events = memory[:0]
	for {
		at, ok := e.NextEvent()
		if !ok || at > now {
			break
		}
		e.clock = at
		enter := at
		if e.stepping {
			e.endStep()
			if e.options.AsyncScheduling && (len(e.running) > 0 || e.waiting.len() > 0) {
				enter = e.stepBegan // what follows was scheduled then
			}
		}
		for e.arriving.len() > 0 && e.arriving.front().enters <= enter {
			e.waiting.pushBack(e.arriving.popFront())
		}
		if e.waiting.len() > 0 || len(e.running) > 0 {
			e.startStep()
		}
	}
	e.clock = max(e.clock, now)
	return e.events
}

// fresh is a sequence to fill in. They are made side by side, for a step goes
// through all that run.
func (e *Engine) fresh() *sequence {
	if len(e.free) == 0 {
		made := make([]sequence, 16)
		for i := range made {
			e.free = append(e.free, &made[len(made)-1-i])
		}
	}
	n := len(e.free)
	s := e.free[n-1]
	e.free = e.free[:n-1]
	*s = sequence{blocks: s.blocks[:0]}
	return s
}

// end forgets a request.
func (e *Engine) end(s *sequence) {
	if s.running {
		e.cache.release(s.blocks)
		s.blocks = s.blocks[:0]
	}
	if e.cache.seen.by == s {
		e.cache.lookAway()
	}
	delete(e.live, s.ID)
	s.Request = nil
	e.free = append(e.free, s)
}

func (e *Engine) endStep() {
	e.stepping = false
	e.counts.Steps++
	kept := e.running[:0]
	for _, s := range e.running {
		s.computed += s.chunk
		scheduled, drafted := s.chunk > 0, s.drafted
		s.chunk, s.drafted = 0, 0
		if s.cancelled {
			e.end(s)
			e.counts.Cancelled++
			continue
		}
		if scheduled && s.computed == s.tokens()+drafted && e.generate(s, 1+drafted) {
			if e.options.AsyncScheduling {
				e.late.decoding++
				e.late.kvRead += s.tokens()
			}
			e.end(s)
			e.counts.Finished++
			continue
		}
		kept = append(kept, s)
	}
	clear(e.running[len(kept):])
	e.running = kept
	e.visible = e.current()
}

// generate gives s n tokens and reports whether it has its whole output.
func (e *Engine) generate(s *sequence, n int) bool {
	if s.generated == 0 {
		e.counts.PromptTokens += int64(s.prompt)
	}
	s.generated += n
	e.counts.GeneratedTokens += int64(n)
	ev := Event{Kind: Token, Request: s.Request, At: e.clock, Generated: s.generated, Cached: s.cached, tag: s.tag}
	e.events = append(e.events, ev)
	if s.generated < s.output {
		return false
	}
	ev.Kind = Finished
	e.events = append(e.events, ev)
	return true
}

// preempt puts the request that arrived last back in front of the line.
func (e *Engine) preempt() *sequence {
	last := len(e.running) - 1
	s := e.running[last]
	e.running[last] = nil
	e.running = e.running[:last]
	e.cache.release(s.blocks)
	s.blocks, s.sealed, s.computed, s.running = s.blocks[:0], 0, 0, false
	e.waiting.pushFront(s)
	e.counts.Preemptions++
	return s
}
