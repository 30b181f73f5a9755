package route

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/ledger"
	"github.com/spillway-llm/spillway/router/policy"
)

// Begin decides where q goes and charges it there. The ticket must be ended.
//
// Errors: ErrNoEndpoint, ErrUnknownLLM, *Shed, or ctx's. A request that is shed
// was decided and is recorded, with its end.
func (r *Router) Begin(ctx context.Context, q *Query) (*Ticket, error) {
	if !nameable(q.LLM) {
		return nil, fmt.Errorf("%w: its name has %d bytes or is no text", ErrUnknownLLM, len(q.LLM))
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make a decision id: %w", err)
	}
	ctx, span := r.config.Tracer.Child(ctx, "decision")
	defer span.End()
	s := r.scratch.Get().(*scratch)
	defer r.scratch.Put(s)
	chain := s.chain(q, r.perByte(q), r.config.Salt)

	ask, err := r.observe(s, q, chain)
	if err != nil {
		return nil, err
	}
	var a asking
	if ask {
		s.choose(r.config.ForecastCandidates)
		r.metrics.unforecast.WithLabelValues(priorOutOfRange).Add(float64(s.beyond))
		if len(s.vectors) > 0 {
			a = r.ask(ctx, q.LLM, s.vectors, s.forecasts)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t, err := r.decide(s, q, chain, a)
	if err != nil {
		return nil, err
	}
	s.fell = r.fallback(s, a)
	if t == nil {
		r.label(span, s)
		return nil, r.turnAway(s, q, feature.ID(id), a)
	}
	t.id = feature.ID(id)
	defer t.endUnless(&t.recorded) // what was charged is settled, also in a panic
	t.record(s, q, a)
	t.label(span)
	r.label(span, s)
	r.metrics.decided(s)
	return t, nil
}

// longestName is the longest name of an LLM in bytes. Longer ones, and those
// that no label, column or log line can hold, belong to no engine.
const longestName = 256

func nameable(llm string) bool {
	if len(llm) > longestName || !utf8.ValidString(llm) {
		return false
	}
	for i := range len(llm) {
		if llm[i] == 0 {
			return false
		}
	}
	return true
}

// observe begins the decision: what is known of the request, and, when
// forecasts are to be asked for, of the endpoints.
func (r *Router) observe(s *scratch, q *Query, chain []uint64) (ask bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	s.snapshot = nil
	if err := r.candidates(s, q); err != nil {
		return false, err // before it takes a place among the LLMs
	}
	s.begin(r, r.llm(q.LLM, now), q, now)
	s.beyond = 0
	if !r.forecasting() {
		return false, nil
	}
	if !s.llm.guard.Asks() {
		return false, nil
	}
	r.view(s, chain, now)
	return true, nil
}

// decide makes the choice and charges it in one locked step, from all that is
// known now: requests that waited for their forecasts side by side see each
// other's charges and prefixes, and the pool as it has become. Of a request that
// is shed there is no ticket.
func (r *Router) decide(s *scratch, q *Query, chain []uint64, a asking) (*Ticket, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	l := s.llm
	if a.asked {
		r.settled(l, now, a)
	}
	s.lost = a.answered() && l.guard.Lost()
	s.state, s.stateReason, _ = l.guard.State()
	if err := r.candidates(s, q); err != nil {
		return nil, err
	}
	r.view(s, chain, now)
	s.join(a)
	arm, part := r.at(now) // which may be another than when forecasts were asked for
	s.input.Policy, s.input.Settings, s.input.Fallback = arm.Policy, arm.Settings, arm.Fallback
	if s.input.Fallback == Auto {
		s.input.Fallback = matched(l.demand.Bound(now, s.peak))
	}
	s.input.Forecasts = a.answered() && !s.lost && s.state == correction.Live && r.config.Mode != ModeShadow
	if s.drill = now.Before(r.drill); s.drill {
		s.input.Forecasts = false
	}
	if r.config.Mode == ModeCanary {
		s.input.Canary = r.config.Canary
	}
	s.without = r.without
	s.input.Seed = draw()
	s.input.Turn = l.turn
	l.turn++
	if err := policy.Decide(&s.input, &s.choice); err != nil {
		return nil, err
	}
	s.decidedAt, s.part = now.UTC().Truncate(time.Microsecond), part
	if r.config.Mode == ModeCanary {
		s.part = r.tossed(&s.choice)
	}
	if s.choice.Index < 0 && !s.choice.Shed {
		return nil, ErrNoEndpoint
	}
	l.used = now
	l.decisions++
	if policy.Forecasting(s.choice.Policy) {
		l.forecasts++
	}
	l.history.decided(now, &s.choice)
	if s.choice.Shed {
		l.shed++
		s.occupyLeast(now)
		return nil, nil
	}
	return r.charge(s, q, chain, now), nil
}

// longestWait bounds how long a request that does not stream counts as being
// in prefill.
const longestWait = time.Hour

// charge books the chosen candidate in ledger, index and counters.
func (r *Router) charge(s *scratch, q *Query, chain []uint64, now time.Time) *Ticket {
	i := s.choice.Index
	c, known, request := &s.input.Candidates[i], s.known[i], &s.input.Request
	uncached := feature.Request{PromptTokens: request.PromptTokens, CachedTokens: c.CachedTokens}.UncachedTokens()
	t := &Ticket{
		router:    r,
		llm:       s.llm,
		decidedAt: s.decidedAt,
		policy:    s.choice.Policy,
		query:     *q,
		prompt:    request.PromptTokens,
		endpoint:  known,
		url:       known.state.URL,
		attempt:   1,
		corrected: s.choice.Forecasts[i],
		bundle:    s.llm.guard.Bundle(),
		entry: ledger.Entry{
			PromptTokens:   int(request.PromptTokens),
			UncachedTokens: int(uncached),
			ExpectedOutput: int(request.ExpectedOutputTokens),
		},
		work: float64(c.Coefficients.Work(request.PromptTokens, uncached)),
	}
	t.query.Prompt = nil // the body is not ours to keep
	t.plain, t.load = correction.Plain(t.corrected, c.Correction), correction.LoadOf(&c.Load)
	if !q.Streaming {
		wait := c.Prior(request).TTFT
		if t.corrected.Known() {
			wait = t.corrected.TTFT.P90
		}
		t.wait = max(1, min(longestWait, wait.Duration()))
	}
	known.occupancy.Add(now, s.occupies(i))
	if policy.Cold(&s.input) {
		known.coldAt = now
	}
	if known.refuses(request.PromptTokens) {
		chain = nil // and what it is believed to hold stays
	} else {
		t.known = int(s.matches[known.slot])
	}
	t.claimed = t.known
	t.believe(known, chain, t.known)
	t.chain = slices.Clone(chain) // the scratch is another request's soon
	r.open[t] = struct{}{}
	t.charge(now)
	return t
}
