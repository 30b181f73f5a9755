// Package otlp sends the spans of package tracing to a receiver that speaks
// OpenTelemetry's protocol, OTLP. It is the only package that sees
// OpenTelemetry.
//
// A span leaves the process with attributes of a closed list and without
// events: no path, query or header, no address or program of a client, no text
// of an error or a prompt.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/spillway-llm/spillway/internal/tracing"
)

// Protocols of OTLP.
const (
	GRPC = "grpc"
	HTTP = "http"
)

// Config says where spans go. Begin from Defaults.
type Config struct {
	// Endpoint is the URL of an OTLP receiver, such as http://collector:4317;
	// https speaks TLS. Empty: tracing is off.
	Endpoint string

	// Protocol is GRPC or HTTP. Over HTTP the path of Endpoint is used, and
	// /v1/traces where it has none.
	Protocol string

	// SampleRatio is the share, 0 to 1, of the requests that are traced and
	// came without a traceparent. The others are traced if that says so.
	SampleRatio float64

	// CAFile is PEM of who signs for the receiver; empty: whom the system
	// trusts.
	CAFile string

	Service  string // of this process in every span, such as spillway-router
	Instance string // tells processes of one service apart; may be empty
	Version  string // of the binary
}

// Defaults are the documented defaults, which trace nothing.
func Defaults() Config { return Config{Protocol: GRPC, SampleRatio: 0.01} }

// Check reports the first setting that can't work, by its key.
func (c *Config) Check() error {
	if c.Protocol != GRPC && c.Protocol != HTTP {
		return fmt.Errorf("protocol: %q is neither %s nor %s", c.Protocol, GRPC, HTTP)
	}
	if !(c.SampleRatio >= 0 && c.SampleRatio <= 1) {
		return fmt.Errorf("sample_ratio: %v; it must be from 0 to 1", c.SampleRatio)
	}
	if c.Endpoint == "" {
		if c.CAFile != "" {
			return errors.New("ca_file: is given, but endpoint is empty, so nothing is sent")
		}
		return nil
	}
	u, err := url.Parse(c.Endpoint)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("endpoint: is no URL of an OTLP receiver; want such as http://127.0.0.1:4317")
	case u.User != nil:
		return errors.New("endpoint: holds a user or a password; secrets for the receiver belong into the environment: OTEL_EXPORTER_OTLP_HEADERS")
	case c.CAFile != "" && u.Scheme != "https":
		return errors.New("ca_file: is given, but endpoint begins with http://, which speaks no TLS")
	}
	return nil
}

// maker makes spans and sends them.
type maker struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	log      *slog.Logger
	warned   atomic.Int64 // when a failure was logged last, Unix nanoseconds
}

// context as W3C writes it. Baggage is the client's own: it passes as any
// header does.
var context3 propagation.TraceContext

// Limits of what waits to be sent: beyond it spans are dropped, requests never
// wait.
const (
	queueSize  = 4096
	batchSize  = 512
	sendEvery  = 2 * time.Second
	sendWithin = 10 * time.Second
	warnEvery  = time.Minute
	scope      = "github.com/spillway-llm/spillway"
)

// Open begins tracing; tracer is nil where config has no endpoint. It does not
// wait for the receiver, which may come and go. Metrics go to reg, which may be
// nil. end sends what waits, within its context, and ends tracing.
//
// Errors name the key of the setting that can't work.
func Open(ctx context.Context, config Config, log *slog.Logger, reg prometheus.Registerer) (tracer *tracing.Tracer, end func(context.Context), err error) {
	if err := config.Check(); err != nil {
		return nil, nil, err
	}
	if config.Endpoint == "" {
		return nil, func(context.Context) {}, nil
	}
	exporter, err := newExporter(ctx, &config)
	if err != nil {
		return nil, nil, err
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", config.Service),
		attribute.String("service.version", config.Version),
		attribute.String("service.instance.id", config.Instance),
	), resource.WithFromEnv())
	if err != nil {
		return nil, nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	counted := newCounts(reg)
	m := &maker{log: log}
	m.provider = sdk.NewTracerProvider(
		sdk.WithResource(about),
		sdk.WithSampler(sdk.ParentBased(rootSampler{sdk.TraceIDRatioBased(config.SampleRatio)})),
		sdk.WithSpanProcessor(counted),
		sdk.WithBatcher(&discreet{exporter, counted},
			sdk.WithMaxQueueSize(queueSize), sdk.WithMaxExportBatchSize(batchSize),
			sdk.WithBatchTimeout(sendEvery), sdk.WithExportTimeout(sendWithin)),
	)
	m.tracer = m.provider.Tracer(scope)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(m.failed)) // of the whole process; it else writes past the log
	return tracing.New(m), m.end, nil
}

// failed logs that spans were not sent, once a minute at most.
func (m *maker) failed(err error) {
	now, last := time.Now().UnixNano(), m.warned.Load()
	if now-last >= int64(warnEvery) && m.warned.CompareAndSwap(last, now) {
		m.log.Warn("spans were not sent to tracing.endpoint", "error", err)
	}
}

// end sends what waits and ends tracing. It takes no longer than ctx.
func (m *maker) end(ctx context.Context) {
	if err := m.provider.Shutdown(ctx); err != nil {
		m.failed(err)
	}
}

// rootSampler samples spans without a parent. A client's is of what no request
// asks for, such as a probe of the predictor, and nobody looks for it.
type rootSampler struct{ sdk.Sampler }

// ShouldSample implements sdk.Sampler.
func (s rootSampler) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	if p.Kind == trace.SpanKindClient {
		return sdk.SamplingResult{Decision: sdk.Drop}
	}
	return s.Sampler.ShouldSample(p)
}
