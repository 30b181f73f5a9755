package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/telemetry"
	"github.com/spillway-llm/spillway/internal/tracing"
	"github.com/spillway-llm/spillway/internal/tracing/otlp"
)

// TracingConfig says where OpenTelemetry spans of requests go. Secrets of the
// receiver come from the environment: OTEL_EXPORTER_OTLP_HEADERS.
type TracingConfig struct {
	Endpoint    string  `yaml:"endpoint"`     // URL of an OTLP receiver, such as http://collector:4317; https speaks TLS; empty: no spans are made
	Protocol    string  `yaml:"protocol"`     // grpc or http
	SampleRatio float64 `yaml:"sample_ratio"` // share of the requests that came without a traceparent, 0 to 1; others are traced if that says so
	CAFile      string  `yaml:"ca_file"`      // PEM of who signs for the receiver; empty: whom the system trusts
}

func defaultTracing() TracingConfig {
	t := otlp.Defaults()
	return TracingConfig{Endpoint: t.Endpoint, Protocol: t.Protocol, SampleRatio: t.SampleRatio, CAFile: t.CAFile}
}

// config is that of a process called so.
func (c *TracingConfig) config(service, instance string) otlp.Config {
	return otlp.Config{
		Endpoint: c.Endpoint, Protocol: c.Protocol, SampleRatio: c.SampleRatio, CAFile: c.CAFile,
		Service: "spillway-" + service, Instance: instance, Version: telemetry.Version(),
	}
}

func (c *TracingConfig) check() error {
	config := c.config("", "")
	if err := config.Check(); err != nil {
		return fmt.Errorf("tracing.%w", err)
	}
	return nil
}

// flushWithin is how long a process that ends waits for its last spans to be
// taken.
const flushWithin = 2 * time.Second

// open begins tracing; end sends what waits. tracer is nil where there is none.
func (c *TracingConfig) open(ctx context.Context, service, instance string, log *slog.Logger, reg prometheus.Registerer) (tracer *tracing.Tracer, end func(), err error) {
	tracer, flush, err := otlp.Open(ctx, c.config(service, instance), log, reg)
	if err != nil {
		return nil, nil, fmt.Errorf("tracing.%w", err)
	}
	return tracer, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWithin)
		defer cancel()
		flush(ctx)
	}, nil
}
