package otlp

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/spillway-llm/spillway/internal/tracing"
)

// Join implements tracing.Maker.
func (m *maker) Join(ctx context.Context, name string, headers http.Header) (context.Context, tracing.Recorder) {
	ctx = context3.Extract(ctx, propagation.HeaderCarrier(headers))
	ctx, s := m.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	return ctx, span{s}
}

// Child implements tracing.Maker.
func (m *maker) Child(ctx context.Context, name string) (context.Context, tracing.Recorder) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, nil
	}
	ctx, s := m.tracer.Start(ctx, name)
	return ctx, span{s}
}

// Of implements tracing.Maker.
func (m *maker) Of(ctx context.Context) tracing.Recorder {
	s := trace.SpanFromContext(ctx)
	if !s.IsRecording() {
		return nil
	}
	return span{s}
}

// span is one as package tracing uses it.
type span struct{ span trace.Span }

// Text implements tracing.Recorder.
func (s span) Text(key, value string) { s.span.SetAttributes(attribute.String(key, value)) }

// Count implements tracing.Recorder.
func (s span) Count(key string, n int) { s.span.SetAttributes(attribute.Int(key, n)) }

// Number implements tracing.Recorder.
func (s span) Number(key string, x float64) { s.span.SetAttributes(attribute.Float64(key, x)) }

// Fail implements tracing.Recorder.
func (s span) Fail() { s.span.SetStatus(codes.Error, "") }

// End implements tracing.Recorder.
func (s span) End() { s.span.End() }
