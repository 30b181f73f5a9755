package otlp

import (
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc/filters"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	metrics "go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc"
)

// Handler implements tracing.Maker.
func (m *maker) Handler(name string, h http.Handler) http.Handler {
	return otelhttp.NewHandler(h, name, m.http(name)...)
}

// Transport implements tracing.Maker.
func (m *maker) Transport(name string, rt http.RoundTripper) http.RoundTripper {
	return otelhttp.NewTransport(rt, m.http(name)...)
}

func (m *maker) http(name string) []otelhttp.Option {
	return []otelhttp.Option{
		otelhttp.WithTracerProvider(m.provider), otelhttp.WithMeterProvider(metrics.NewMeterProvider()), otelhttp.WithPropagators(context3),
		otelhttp.WithSpanNameFormatter(func(string, *http.Request) string { return name }),
	}
}

// ServerOptions implements tracing.Maker.
func (m *maker) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.StatsHandler(otelgrpc.NewServerHandler(m.grpc()...))}
}

// DialOptions implements tracing.Maker.
func (m *maker) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithStatsHandler(otelgrpc.NewClientHandler(m.grpc()...))}
}

func (m *maker) grpc() []otelgrpc.Option {
	return []otelgrpc.Option{
		otelgrpc.WithTracerProvider(m.provider), otelgrpc.WithMeterProvider(metrics.NewMeterProvider()), otelgrpc.WithPropagators(context3),
		otelgrpc.WithFilter(filters.Not(filters.HealthCheck())),
	}
}
