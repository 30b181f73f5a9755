// Package tracing is what the parts of a router say about one request while it
// is on its way: spans, in the words of OpenTelemetry. Where they go, package
// otlp knows, and nobody else sees OpenTelemetry. What others call traces,
// package trace reads; the two have nothing in common.
//
// A nil *Tracer is tracing that is off: every method of it and of a nil *Span
// does nothing and allocates nothing.
//
// The spans of one request:
//
//	request   in a front door, from its first byte to the end of the answer
//	decision  where it goes
//	forecast  one call of the predictor
//	upstream  one attempt at an endpoint; of a proxy's request there is none
//
// and of a predictor on TCP what gRPC calls its method. Context is W3C's
// traceparent and tracestate: one that comes with a request is its parent, also
// in whether it is sampled, and the endpoint is told of the span that asks it.
package tracing

import (
	"context"
	"net/http"

	"google.golang.org/grpc"
)

// Maker makes the spans of a Tracer. It is safe for concurrent use.
type Maker interface {
	// Join begins the span of a request that another process sent, whose
	// parent stands in the headers it came with.
	Join(ctx context.Context, name string, headers http.Header) (context.Context, Recorder)
	// Child begins a part of the span in ctx; nil where there is none that is
	// sampled.
	Child(ctx context.Context, name string) (context.Context, Recorder)
	// Of is the span in ctx; nil where there is none that is sampled.
	Of(ctx context.Context) Recorder
	// Handler makes a span of every request that h serves.
	Handler(name string, h http.Handler) http.Handler
	// Transport makes a span of every request that goes through rt.
	Transport(name string, rt http.RoundTripper) http.RoundTripper
	// ServerOptions and DialOptions make a span of every call over gRPC.
	ServerOptions() []grpc.ServerOption
	DialOptions() []grpc.DialOption
}

// Recorder is a span that has begun.
type Recorder interface {
	Text(key, value string)
	Count(key string, n int)
	Number(key string, x float64)
	Fail()
	End()
}

// Tracer makes spans. It is safe for concurrent use.
type Tracer struct{ maker Maker }

// New makes a tracer.
func New(m Maker) *Tracer { return &Tracer{m} }

// Join begins the span of a request that another process sent, whose parent
// stands in the headers it came with. It must be ended.
func (t *Tracer) Join(ctx context.Context, name string, headers http.Header) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	ctx, r := t.maker.Join(ctx, name, headers)
	return ctx, spanOf(r)
}

// Child begins a part of the span in ctx, and nothing where there is none that
// is sampled. It must be ended.
func (t *Tracer) Child(ctx context.Context, name string) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	ctx, r := t.maker.Child(ctx, name)
	return ctx, spanOf(r)
}

// Of is the span in ctx; nil where there is none that is sampled.
func (t *Tracer) Of(ctx context.Context) *Span {
	if t == nil {
		return nil
	}
	return spanOf(t.maker.Of(ctx))
}

// Handler makes a span, called request, of every request that h serves.
func (t *Tracer) Handler(h http.Handler) http.Handler {
	if t == nil {
		return h
	}
	return t.maker.Handler("request", h)
}

// Transport makes a span, called upstream, of every request that goes through
// rt, to the end of the answer's body, and tells who is asked of it.
func (t *Tracer) Transport(rt http.RoundTripper) http.RoundTripper {
	if t == nil {
		return rt
	}
	return t.maker.Transport("upstream", rt)
}

// ServerOptions make a span of every call that a gRPC server answers, but for
// those of its health.
func (t *Tracer) ServerOptions() []grpc.ServerOption {
	if t == nil {
		return nil
	}
	return t.maker.ServerOptions()
}

// DialOptions make a span of every call of a gRPC client that is made for a
// request.
func (t *Tracer) DialOptions() []grpc.DialOption {
	if t == nil {
		return nil
	}
	return t.maker.DialOptions()
}
