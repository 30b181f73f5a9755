package fleet

import (
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/ledger"
	"github.com/spillway-llm/spillway/router/policy"
)

// The ledger is told of tokens in portions, as route does.
const (
	ledgerTokens   = 16                     // after so many tokens
	ledgerInterval = 200 * time.Millisecond // or after so long
)

// ticket is one request as the router follows it.
type ticket struct {
	target   *target
	stream   int32 // number in target.streams
	handle   ledger.Handle
	number   uint64 // of the call
	entry    ledger.Entry
	prompt   float64          // tokens
	cached   float64          // of them, believed to be there
	work     float64          // seconds of prefill by the step model
	forecast feature.Forecast // corrected
	plain    feature.Forecast // before online correction
	load     float64          // of the endpoint before it, as corrections count
	bundle   int64            // behind the forecast
	policy   string           // that decided; empty where a connection did
	mark     correction.Mark  // how far the stream was at the last tick
	decided  time.Time
	overdue  bool     // the p90 has been told that it missed
	late     bool     // and the guard that it is late
	chosen   int      // forks: what was decided
	chain    []uint64 // of the prompt
	believed belief
	known    int     // blocks of the prompt that the index knew there
	follows  float64 // tokens of an answer that may follow them
}

// charge books a call on an endpoint in ledger, index and counters.
func (r *router) charge(q *query, of *call, endpoint int, now time.Time) {
	t := &of.ticket
	c, request := &r.input.Candidates[endpoint], &r.input.Request
	uncached := feature.Request{PromptTokens: request.PromptTokens, CachedTokens: c.CachedTokens}.UncachedTokens()
	entry := ledger.Entry{
		PromptTokens:   int(request.PromptTokens),
		UncachedTokens: int(uncached),
		ExpectedOutput: int(request.ExpectedOutputTokens),
	}
	*t = ticket{
		target:   r.targets[endpoint],
		number:   of.id,
		entry:    entry,
		prompt:   request.PromptTokens,
		cached:   c.CachedTokens,
		work:     float64(c.Coefficients.Work(request.PromptTokens, uncached)),
		forecast: t.forecast, chosen: t.chosen, policy: t.policy, bundle: r.guard.Bundle(),
		plain:    correction.Plain(t.forecast, c.Correction),
		load:     correction.LoadOf(&c.Load),
		decided:  now,
		chain:    q.chain,
		believed: r.believe(r.targets[endpoint], q.chain),
	}
	if len(q.chain) > 0 {
		slot := t.target.slot
		t.known = int(r.matches[slot])
		t.follows = r.follows(slot, q, t.known)
	}
	if policy.Cold(&r.input) {
		t.target.coldAt = now
	}
	if len(q.chain) > 0 {
		r.claim(t.target.slot, q.chain, now)
	}
	t.entry.Chain = q.chain
	t.handle = r.ledger.Charge(t.target.id, 0, t.entry, now)
	t.entry.Chain = nil // its memory is another call's soon
	r.demand.Add(now, float64(entry.UncachedTokens))
	t.stream = t.target.streams.add(of, t.handle)
	if r.tell != nil {
		r.tell(word{kind: wordCharged, number: t.number, endpoint: endpoint, entry: entry, chain: slices.Clone(q.chain)})
	}
	t.target.chosen++
	r.changed(t.target)
}

// firstToken says that the first event of a stream arrived.
func (r *router) firstToken(s *stream, at time.Duration) {
	t, now := &s.call.ticket, epoch.Add(at)
	s.last, s.told, s.events = at, at, 1
	r.ledger.FirstToken(t.handle, now)
	r.changed(t.target)
	t.target.clock.Prefilled(now, t.work)
	t.mark.Begin(now)
	r.settled(t, now, feature.SecondsOf(now.Sub(t.decided)), feature.Seconds(feature.Unknown), 0)
	if r.tell != nil {
		s.shared = 1
		r.tell(word{kind: wordGenerated, number: t.number, endpoint: t.target.number, tokens: 1})
	}
}

// tokens says that an event with n more tokens arrived. The target counts as
// unchanged: see views.
func (r *router) tokens(s *stream, n int32, at time.Duration) {
	s.last = at
	s.events++
	s.pending += n
	if s.pending < ledgerTokens && at-s.told < ledgerInterval {
		return
	}
	r.ledger.Tokens(s.handle, int(s.pending), epoch.Add(at))
	s.pending, s.told = 0, at
}

// answer is what came of a request, as far as its client saw.
type answer struct {
	complete     bool
	ttft, tpot   feature.Seconds
	outputTokens int
	cachedTokens int // of the prompt, as the engine reports
}

// end settles t at now. An answer that was complete teaches.
func (r *router) end(t *ticket, a answer, now time.Time) {
	r.ledger.Settle(t.handle)
	r.changed(t.target)
	t.target.streams.remove(t.stream)
	if r.tell != nil {
		r.tell(t.farewell(a, r.block))
	}
	if !a.complete {
		return
	}
	r.output.Observe(t.prompt, float64(a.outputTokens))
	r.answered(t, a)
	r.settled(t, now, feature.Seconds(feature.Unknown), a.tpot, a.outputTokens)
	r.test(t, float64(a.cachedTokens))
}

// tick observes speeds and what is overdue; route does it once a second.
func (r *router) tick(now time.Time) {
	r.note(r.guard.Tick(now))
	for _, e := range r.targets {
		budget := float64(e.profile.MaxBatchedTokens)
		longest := budget
		var refuted []*ticket
		for i := range e.streams.all {
			s := &e.streams.all[i]
			switch {
			case s.call == nil: // unused
			case s.events > 0:
				e.clock.Stream(&s.call.ticket.mark, int64(s.events), epoch.Add(s.last))
				if r.tell != nil && s.generated != s.shared {
					s.shared = s.generated
					r.tell(word{kind: wordGenerated, number: s.call.ticket.number, endpoint: e.number, tokens: int(s.generated)})
				}
			default:
				longest = max(longest, s.call.ticket.prompt)
				r.observeOverdue(&s.call.ticket, now)
				if t := &s.call.ticket; r.refutes(t, now) {
					refuted = append(refuted, t)
				}
			}
		}
		r.observeLate(refuted, now)
		for _, m := range r.mirrors {
			longest = max(longest, float64(m.Longest(e.id, 0)))
		}
		step := 0.0
		if e.streams.open() > 0 {
			state := r.ledger.State(e.id, 0, now, e.scrapedAt)
			step = float64(e.profile.Coefficients.Step(state.Decoding, state.ContextTokens))
		}
		e.clock.Stalled(now, step+float64(e.profile.Coefficients.Work(longest, budget)), &e.speed)
		e.clock.Tick(now, step, &e.speed)
	}
}

// observeOverdue counts a request whose first token is later than its p90, once.
func (r *router) observeOverdue(t *ticket, now time.Time) {
	if !t.overdue && t.plain.Known() && feature.SecondsOf(now.Sub(t.decided)) > t.forecast.TTFT.P90 {
		t.overdue = true
		r.coverage.Overdue(t.load)
	}
}
