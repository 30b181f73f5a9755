package tracing_test

import (
	"net/http"
	"testing"

	"github.com/spillway-llm/spillway/internal/tracing"
)

// Tracing that is off costs nothing.
func TestOff(t *testing.T) {
	var tracer *tracing.Tracer
	mux := http.NewServeMux()
	if tracer.Handler(mux) != http.Handler(mux) || tracer.Transport(http.DefaultTransport) != http.DefaultTransport ||
		tracer.ServerOptions() != nil || tracer.DialOptions() != nil {
		t.Error("something stands in between")
	}
	ctx, header := t.Context(), http.Header{"Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}
	allocations := testing.AllocsPerRun(100, func() {
		ctx, span := tracer.Join(ctx, "request", header)
		ctx, part := tracer.Child(ctx, "decision")
		part.Text(tracing.KeyLLM, "qwen")
		part.Count(tracing.KeyCandidates, 7)
		part.Number(tracing.KeyTTFT, 1)
		part.End()
		tracer.Of(ctx).Fail("shed")
		span.End()
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}
