package front

import (
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/openai"
	"github.com/spillway-llm/spillway/internal/tracing"
	"github.com/spillway-llm/spillway/router/route"
)

// Tell says to the span of a request how it ended; nil is told nothing.
func Tell(span *tracing.Span, t *route.Ticket, api openai.API, e *route.End) {
	if span == nil {
		return
	}
	span.Text(tracing.KeyAPI, api.String())
	span.Text(tracing.KeyEndpoint, t.Endpoint())
	span.Text(tracing.KeyPolicy, t.Policy())
	span.Text(tracing.KeyDecision, t.ID().String())
	span.Text(tracing.KeyStatus, string(e.Status))
	span.Count(tracing.KeyHTTPStatus, e.HTTPStatus)
	span.Number(tracing.KeyTTFT, float64(e.TTFT))
	span.Number(tracing.KeyTPOT, float64(e.TPOT))
	span.Number(tracing.KeyOutput, e.OutputTokens)
	if e.Status != feature.OK {
		span.Fail(string(e.Status))
	}
}
