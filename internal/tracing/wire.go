package tracing

import (
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc/filters"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	metrics "go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc"
)

// Handler makes a span, called request, of every request that h serves.
func (t *Tracer) Handler(h http.Handler) http.Handler {
	if t == nil {
		return h
	}
	return otelhttp.NewHandler(h, "request", t.http("request")...)
}

// Transport makes a span, called upstream, of every request that goes through
// rt, to the end of the answer's body, and tells who is asked of it.
func (t *Tracer) Transport(rt http.RoundTripper) http.RoundTripper {
	if t == nil {
		return rt
	}
	return otelhttp.NewTransport(rt, t.http("upstream")...)
}

func (t *Tracer) http(name string) []otelhttp.Option {
	return []otelhttp.Option{
		otelhttp.WithTracerProvider(t.provider), otelhttp.WithMeterProvider(metrics.NewMeterProvider()), otelhttp.WithPropagators(context3),
		otelhttp.WithSpanNameFormatter(func(string, *http.Request) string { return name }),
	}
}

// ServerOptions make a span of every call that a gRPC server answers, but for
// those of its health.
func (t *Tracer) ServerOptions() []grpc.ServerOption {
	if t == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.StatsHandler(otelgrpc.NewServerHandler(t.grpc()...))}
}

// DialOptions make a span of every call of a gRPC client that is made for a
// request.
func (t *Tracer) DialOptions() []grpc.DialOption {
	if t == nil {
		return nil
	}
	return []grpc.DialOption{grpc.WithStatsHandler(otelgrpc.NewClientHandler(t.grpc()...))}
}

func (t *Tracer) grpc() []otelgrpc.Option {
	return []otelgrpc.Option{
		otelgrpc.WithTracerProvider(t.provider), otelgrpc.WithMeterProvider(metrics.NewMeterProvider()), otelgrpc.WithPropagators(context3),
		otelgrpc.WithFilter(filters.Not(filters.HealthCheck())),
	}
}
