package otlp_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/spillway-llm/spillway/internal/tracing"
	"github.com/spillway-llm/spillway/internal/tracing/otlp"
)

// receive opens a tracer to a receiver over HTTP; its spans are returned when
// the tracer was closed.
func receive(t *testing.T, ratio float64, reg prometheus.Registerer) (tracer *tracing.Tracer, closed func() []*tracepb.Span) {
	t.Helper()
	var mu sync.Mutex
	var all []*tracepb.Span
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var in collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &in)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			http.Error(w, "no spans", http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, from := range in.ResourceSpans {
			for _, scope := range from.ScopeSpans {
				all = append(all, scope.Spans...)
			}
		}
	}))
	t.Cleanup(server.Close)
	config := otlp.Defaults()
	config.Endpoint, config.Protocol, config.SampleRatio, config.Service = server.URL, otlp.HTTP, ratio, "test"
	tracer, end, err := otlp.Open(t.Context(), config, slog.New(slog.DiscardHandler), reg)
	if err != nil {
		t.Fatal(err)
	}
	return tracer, func() []*tracepb.Span {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		end(ctx)
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

// What is not in the list stays here, whoever sets it.
func TestWhatIsTold(t *testing.T) {
	const planted = "weir-of-hollow-mill"
	reg := prometheus.NewRegistry()
	tracer, closed := receive(t, 1, reg)
	front := httptest.NewServer(tracer.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w) // a front door sets deadlines and flushes
		if err := errors.Join(control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Time{})); err != nil {
			t.Error(err)
		}
		if _, ok := w.(http.Flusher); !ok {
			t.Error("what is written can't be flushed")
		}
		span := tracer.Of(r.Context())
		span.Text(tracing.KeyAPI, "chat")
		span.Text("prompt", planted)
		span.Number(tracing.KeyTTFT, 0.25)
		_, part := tracer.Child(r.Context(), "decision")
		part.Count(tracing.KeyCandidates, 7)
		part.Fail("shed")
		part.End()
		ask, _ := http.NewRequestWithContext(r.Context(), "POST", "http://127.0.0.1:1/"+planted+"?key="+planted, strings.NewReader(planted))
		if _, err := tracer.Transport(http.DefaultTransport).RoundTrip(ask); err == nil {
			t.Error("somebody answered")
		}
		http.Error(w, planted, http.StatusBadGateway)
	})))
	defer front.Close()
	request, _ := http.NewRequestWithContext(t.Context(), planted, front.URL+"/"+planted+"?"+planted, strings.NewReader(planted))
	request.Header.Set("User-Agent", planted)
	request.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	request.Header.Set("Tracestate", "client="+planted)
	request.Header.Set("Authorization", planted)
	request.Header.Set("X-Forwarded-For", "203.0.113.77")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()

	names := map[string]*tracepb.Span{}
	for _, s := range closed() {
		names[s.Name] = s
		text := s.String()
		for _, never := range []string{planted, "203.0.113.77", "connection refused", "dial"} {
			if strings.Contains(text, never) {
				t.Errorf("told %q: %s", never, text)
			}
		}
	}
	for name, want := range map[string][]string{
		"request": {"spillway.api", "chat", "http.response.status_code", "502", "0.25"}, "decision": {"spillway.candidates", "7", "error.type", "shed"},
		"upstream": {"server.address", "127.0.0.1"},
	} {
		s := names[name]
		if s == nil {
			t.Errorf("no span %s in %v", name, names)
			continue
		}
		for _, w := range want {
			if !strings.Contains(s.String(), w) {
				t.Errorf("no %q in the span %s: %s", w, name, s)
			}
		}
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range families[0].Metric {
		want := map[string]float64{"ended": 3, "sent": 3, "failed": 0}[m.Label[0].GetValue()]
		if got := m.Counter.GetValue(); got != want {
			t.Errorf("%s: %v spans, want %v", m.Label[0].GetValue(), got, want)
		}
	}
}

// The parent says whether a request is sampled; the ratio, where there is none.
func TestSampling(t *testing.T) {
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	for _, c := range []struct {
		name, parent string
		ratio        float64
		want         int
	}{
		{"parent says yes", "00-" + id + "-00f067aa0ba902b7-01", 0, 2},
		{"parent says no", "00-" + id + "-00f067aa0ba902b7-00", 1, 0},
		{"no parent, all", "", 1, 2},
		{"no parent, none", "", 0, 0},
		{"no parent that can be read", "00-x", 1, 2},
	} {
		tracer, closed := receive(t, c.ratio, nil)
		ctx, span := tracer.Join(t.Context(), "request", http.Header{"Traceparent": {c.parent}})
		_, part := tracer.Child(ctx, "decision")
		part.End()
		span.End()
		_, alone := tracer.Child(t.Context(), "forecast") // of no request: nobody looks for it
		alone.End()
		if got := closed(); len(got) != c.want {
			t.Errorf("%s: %d spans, want %d: %v", c.name, len(got), c.want, got)
		}
	}
}

// Without an endpoint there is no tracer.
func TestOff(t *testing.T) {
	tracer, end, err := otlp.Open(t.Context(), otlp.Defaults(), slog.New(slog.DiscardHandler), nil)
	if err != nil || tracer != nil {
		t.Fatalf("%v, %v", tracer, err)
	}
	end(t.Context())
}

func TestMistakes(t *testing.T) {
	for key, change := range map[string]func(*otlp.Config){
		"protocol":     func(c *otlp.Config) { c.Protocol = "udp" },
		"sample_ratio": func(c *otlp.Config) { c.SampleRatio = 1.5 },
		"ca_file":      func(c *otlp.Config) { c.CAFile = "/none" },
		"endpoint":     func(c *otlp.Config) { c.Endpoint = "collector:4317" },
	} {
		c := otlp.Defaults()
		change(&c)
		if _, _, err := otlp.Open(t.Context(), c, nil, nil); err == nil || !strings.HasPrefix(err.Error(), key+": ") {
			t.Errorf("%s: %v", key, err)
		}
	}
	c := otlp.Defaults()
	c.Endpoint = "http://user:hunter2@collector:4317"
	if err := c.Check(); err == nil || !strings.HasPrefix(err.Error(), "endpoint: ") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a secret in the endpoint: %v", err)
	}
	c.Endpoint, c.CAFile = "https://collector:4317", "/none"
	if _, _, err := otlp.Open(t.Context(), c, nil, nil); err == nil || !strings.HasPrefix(err.Error(), "ca_file: ") {
		t.Errorf("an authority that is not there: %v", err)
	}
}
