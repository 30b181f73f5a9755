package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Span is one that has begun. One goroutine uses it.
type Span struct{ span trace.Span }

// Join begins the span of a request that another process sent, whose parent
// stands in the headers it came with. It must be ended.
func (t *Tracer) Join(ctx context.Context, name string, headers http.Header) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	ctx = context3.Extract(ctx, propagation.HeaderCarrier(headers))
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	return ctx, &Span{span}
}

// Child begins a part of the span in ctx, and nothing where there is none that
// is sampled. It must be ended.
func (t *Tracer) Child(ctx context.Context, name string) (context.Context, *Span) {
	if t == nil || !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, nil
	}
	ctx, span := t.tracer.Start(ctx, name)
	return ctx, &Span{span}
}

// Of is the span in ctx; nil where there is none that is sampled.
func (t *Tracer) Of(ctx context.Context) *Span {
	if t == nil {
		return nil
	}
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return nil
	}
	return &Span{span}
}

// Text sets an attribute; keys that are not in the list of this package stay
// here.
func (s *Span) Text(key, value string) {
	if s != nil {
		s.span.SetAttributes(attribute.String(key, value))
	}
}

// Count sets an attribute that is a whole number.
func (s *Span) Count(key string, n int) {
	if s != nil {
		s.span.SetAttributes(attribute.Int(key, n))
	}
}

// Number sets an attribute, unless it is not known: NaN.
func (s *Span) Number(key string, x float64) {
	if s != nil && x == x {
		s.span.SetAttributes(attribute.Float64(key, x))
	}
}

// Fail says that what the span is of went wrong, and why in a word of a closed
// set.
func (s *Span) Fail(why string) {
	if s != nil {
		s.span.SetAttributes(attribute.String(KeyError, why))
		s.span.SetStatus(codes.Error, "")
	}
}

// End ends the span.
func (s *Span) End() {
	if s != nil {
		s.span.End()
	}
}
