package otlp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/credentials"

	"github.com/spillway-llm/spillway/internal/tracing"
)

// newExporter sends to the receiver of a configuration that was checked. Secrets
// for it come from the environment, as OpenTelemetry has it.
func newExporter(ctx context.Context, c *Config) (sdk.SpanExporter, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	protection := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		text, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		protection.RootCAs = x509.NewCertPool()
		if !protection.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("ca_file: %s holds no certificate in PEM", c.CAFile)
		}
	}
	if c.Protocol == HTTP {
		path := u.Path
		if strings.Trim(path, "/") == "" {
			path = "/v1/traces"
		}
		options := []otlptracehttp.Option{otlptracehttp.WithEndpoint(u.Host), otlptracehttp.WithURLPath(path)}
		if u.Scheme == "http" {
			options = append(options, otlptracehttp.WithInsecure())
		} else {
			options = append(options, otlptracehttp.WithTLSClientConfig(protection))
		}
		return otlptracehttp.New(ctx, options...)
	}
	options := []otlptracegrpc.Option{otlptracegrpc.WithEndpoint(u.Host)}
	if u.Scheme == "http" {
		options = append(options, otlptracegrpc.WithInsecure())
	} else {
		options = append(options, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(protection)))
	}
	return otlptrace.New(ctx, otlptracegrpc.NewClient(options...))
}

// told are the attributes that leave the process: those of package tracing, and
// of what OpenTelemetry's own instrumentation sets what says nothing of a client.
var told = func() map[attribute.Key]bool {
	all := map[attribute.Key]bool{}
	for _, key := range append([]string{
		"http.request.method", "http.request.resend_count", "network.protocol.version",
		"rpc.system", "rpc.system.name", "rpc.service", "rpc.method", "rpc.response.status_code", "rpc.grpc.status_code",
	}, tracing.Keys...) {
		all[attribute.Key(key)] = true
	}
	return all
}()

// discreet sends spans with what may be told alone.
type discreet struct {
	sdk.SpanExporter
	counts *counts
}

// ExportSpans implements sdk.SpanExporter.
func (d *discreet) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	shown := make([]sdk.ReadOnlySpan, len(spans))
	for i, s := range spans {
		shown[i] = veiled{s}
	}
	err := d.SpanExporter.ExportSpans(ctx, shown)
	if err != nil {
		d.counts.spans.WithLabelValues("failed").Add(float64(len(spans)))
	} else {
		d.counts.spans.WithLabelValues("sent").Add(float64(len(spans)))
	}
	return err
}

// veiled is a span as it leaves.
type veiled struct{ sdk.ReadOnlySpan }

// Attributes implements sdk.ReadOnlySpan.
func (v veiled) Attributes() []attribute.KeyValue {
	var out []attribute.KeyValue
	asks := v.SpanKind() == trace.SpanKindClient // an endpoint or a predictor, whose address is ours to tell
	for _, a := range v.ReadOnlySpan.Attributes() {
		if told[a.Key] || asks && (a.Key == "server.address" || a.Key == "server.port") {
			out = append(out, a)
		}
	}
	return out
}

// SpanContext implements sdk.ReadOnlySpan: what a client wrote into its tracestate
// goes on to who is asked, and no further.
func (v veiled) SpanContext() trace.SpanContext {
	return v.ReadOnlySpan.SpanContext().WithTraceState(trace.TraceState{})
}

// Events implements sdk.ReadOnlySpan.
func (v veiled) Events() []sdk.Event { return nil }

// Status implements sdk.ReadOnlySpan: the text of an error stays here.
func (v veiled) Status() sdk.Status { return sdk.Status{Code: v.ReadOnlySpan.Status().Code} }

// counts counts spans.
type counts struct{ spans *prometheus.CounterVec }

func newCounts(reg prometheus.Registerer) *counts {
	c := &counts{promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "spillway_tracing_spans_total",
		Help: "Spans that ended, were sent, and could not be sent; what is neither sent nor failed waits, or was dropped because too many waited.",
	}, []string{"what"})}
	for _, what := range []string{"ended", "sent", "failed"} {
		c.spans.WithLabelValues(what)
	}
	return c
}

// OnStart implements sdk.SpanProcessor.
func (c *counts) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements sdk.SpanProcessor.
func (c *counts) OnEnd(sdk.ReadOnlySpan) { c.spans.WithLabelValues("ended").Inc() }

// Shutdown implements sdk.SpanProcessor.
func (c *counts) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdk.SpanProcessor.
func (c *counts) ForceFlush(context.Context) error { return nil }
