package route

import (
	"net/http"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
)

// End settles the ticket, tells the pool how its endpoint did and records what
// came of it. Only the first call counts.
func (t *Ticket) End(e End) {
	t.once.Do(func() { t.end(&e) })
}

// endUnless ends a ticket that its maker can't hand out.
func (t *Ticket) endUnless(fine *bool) {
	if !*fine {
		unknown := feature.Seconds(feature.Unknown)
		t.End(End{Status: feature.Lost, TTFT: unknown, TPOT: unknown, E2E: unknown,
			PromptTokens: feature.Unknown, OutputTokens: feature.Unknown, CachedTokens: feature.Unknown})
	}
}

func (t *Ticket) end(e *End) {
	t.ended, t.others = true, options{}
	now := time.Now()
	t.close(e, now)
	switch {
	case e.Status == feature.OK:
		t.router.pool.ReportSuccess(t.endpoint.id)
	case t.endpointFailed(e) && !t.reported:
		t.reported = true
		t.router.pool.ReportFailure(t.endpoint.id)
	}
	if t.recorded {
		t.router.recorder.RecordOutcome(t.outcome(e, now))
	}
}

// close does what End does under the lock.
func (t *Ticket) close(e *End, now time.Time) {
	t.router.mu.Lock()
	defer t.router.mu.Unlock()
	t.settle()
	delete(t.router.open, t)
	if t.refused(e) {
		t.unclaim()
	}
	if e.Status == feature.OK {
		t.learn(e)
		ttft := e.TTFT
		if t.first && t.query.Streaming { // it taught when it came
			ttft = feature.Seconds(feature.Unknown)
		}
		t.judge(now, ttft, e.TPOT, e.OutputTokens)
		t.answered(e)
		t.checkBelief(e)
		t.tellTaught(e)
	}
	t.chain = nil
	t.router.remember(t, e, now)
}

// endpointFailed reports whether the request ended badly for the endpoint's
// own fault: it was silent, answered 5xx or broke off an answer that had
// begun well. A request it refused, also because it is overloaded, one that
// failed by itself, and a client that left say nothing of it; nor does a whole
// answer that took too long, for it may have been a long one.
func (t *Ticket) endpointFailed(e *End) bool {
	switch e.Status {
	case feature.UpstreamTimeout:
		return t.query.Streaming || e.HTTPStatus/100 == 2
	case feature.UpstreamError:
		return !e.ErrorInside && (e.HTTPStatus/100 == 2 || e.HTTPStatus >= 500 && e.HTTPStatus != http.StatusServiceUnavailable)
	}
	return false
}

// learn takes in what a served request says about lengths.
func (t *Ticket) learn(e *End) {
	prompt := t.prompt
	if e.PromptTokens > 0 {
		prompt = e.PromptTokens
		if t.query.PromptTokens == 0 {
			t.llm.bytes.observe(e.PromptTokens, t.query.PromptBytes)
		}
	}
	t.llm.output.Observe(prompt, e.OutputTokens/float64(max(1, t.query.Completions)))
}

// judge learns from what was measured so far, and holds what was forecast against
// it. TTFT is known with the first token, long before the end of a long answer; TPOT
// is over a number of tokens.
func (t *Ticket) judge(now time.Time, ttft, tpot feature.Seconds, tokens float64) {
	if !t.plain.Known() {
		return
	}
	t.endpoint.offset.Observe(t.plain, ttft, tpot)
	t.llm.coverage.Observe(&correction.Said{Plain: t.plain, Corrected: t.corrected, Load: t.load, Overdue: t.overdue}, ttft, tpot)
	s := correction.Settled{Endpoint: t.endpoint.id, DispatchedAt: t.dispatched(), Plain: t.plain, Forecast: t.corrected,
		TTFT: ttft, TPOT: tpot, OutputTokens: tokens, Overdue: t.late}
	t.router.note(t.llm, nil)(t.llm.guard.Settled(now, t.bundle, &s))
}

// dispatched is when the request was handed to the endpoint, or else decided.
func (t *Ticket) dispatched() time.Time {
	if t.sentAt.IsZero() {
		return t.decidedAt
	}
	return t.sentAt
}

// outcome makes the row.
func (t *Ticket) outcome(e *End, now time.Time) feature.Outcome {
	o := feature.Outcome{
		Decision:     t.id,
		DecidedAt:    t.decidedAt,
		Attempt:      t.attempt,
		Status:       e.Status,
		HTTPStatus:   e.HTTPStatus,
		TTFT:         e.TTFT,
		TPOT:         e.TPOT,
		E2E:          e.E2E,
		OutputTokens: e.OutputTokens,
		CachedTokens: e.CachedTokens,
		Endpoint:     t.endpoint.id,
		CensoredAt:   feature.Seconds(feature.Unknown),
		FinishedAt:   now.UTC().Truncate(time.Microsecond),
	}
	if e.Status == feature.OK {
		return o
	}
	o.E2E = feature.Seconds(feature.Unknown)
	if feature.IsUnknown(e.TTFT) && t.query.Streaming && !t.sentAt.IsZero() {
		o.CensoredAt = feature.SecondsOf(now.Sub(t.sentAt))
	}
	return o
}
