package route

import "github.com/spillway-llm/spillway/internal/tracing"

// label says to the span of a decision how it was made; nil is told nothing.
func (r *Router) label(span *tracing.Span, s *scratch) {
	if span == nil {
		return
	}
	span.Text(tracing.KeyLLM, s.llm.name)
	span.Text(tracing.KeyPolicy, s.choice.Policy)
	span.Text(tracing.KeyState, string(s.state))
	span.Count(tracing.KeyCandidates, len(s.input.Candidates))
	if s.fell.label != "" {
		span.Text(tracing.KeyFallback, s.fell.label)
	}
	if s.choice.Shed {
		span.Fail("shed")
	}
}

// label says where the ticket goes.
func (t *Ticket) label(span *tracing.Span) {
	if span == nil {
		return
	}
	span.Text(tracing.KeyDecision, t.id.String())
	span.Text(tracing.KeyEndpoint, t.endpoint.id)
	span.Text(tracing.KeyReason, t.reason)
}
