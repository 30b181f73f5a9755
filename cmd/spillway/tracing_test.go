package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/router/extproc/extproctest"
)

// receiver takes spans over OTLP.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	url string

	mu  sync.Mutex
	all []*collector.ExportTraceServiceRequest
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{url: "http://" + listener.Addr().String()}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, r)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() { server.Stop(); serving.Wait() })
	return r
}

// Export implements the service.
func (r *receiver) Export(_ context.Context, in *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, in)
	return &collector.ExportTraceServiceResponse{}, nil
}

// text is all that was received.
func (r *receiver) text(t *testing.T) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var s strings.Builder
	for _, in := range r.all {
		b, err := protojson.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		s.Write(b)
	}
	return s.String()
}

// span is one that was received.
type span struct {
	service, name string
	parent, id    string
	failed        bool
	attributes    map[string]string
}

// spans are those of a trace, by name.
func (r *receiver) spans(trace string) map[string]span {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]span{}
	for _, in := range r.all {
		for _, from := range in.ResourceSpans {
			service := ""
			for _, a := range from.Resource.Attributes {
				if a.Key == "service.name" {
					service = a.Value.GetStringValue()
				}
			}
			for _, scope := range from.ScopeSpans {
				for _, s := range scope.Spans {
					if hex.EncodeToString(s.TraceId) != trace {
						continue
					}
					got := span{
						service: service, name: s.Name, parent: hex.EncodeToString(s.ParentSpanId), id: hex.EncodeToString(s.SpanId),
						failed: s.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR, attributes: map[string]string{},
					}
					for _, a := range s.Attributes {
						got.attributes[a.Key] = fmt.Sprint(a.Value.GetValue())
					}
					name := s.Name
					if s.Kind == otlp.Span_SPAN_KIND_SERVER && service == "spillway-predictor" {
						name = "answered"
					}
					all[name] = got
				}
			}
		}
	}
	return all
}

// overheard is a proxy before an endpoint, and the last headers that it saw of
// a chat.
type overheard struct {
	url string

	mu     sync.Mutex
	header http.Header
}

func overhear(t *testing.T, endpoint string) *overheard {
	t.Helper()
	to, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	o := &overheard{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			o.mu.Lock()
			o.header = r.Header.Clone()
			o.mu.Unlock()
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	o.url = server.URL
	return o
}

func (o *overheard) last(name string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.header.Get(name)
}

const (
	planted     = "the-weir-of-hollow-mill"          // in a prompt
	parentTrace = "4bf92f3577b34da6a3ce929d0e0e4736" // of the client
	parentSpan  = "00f067aa0ba902b7"
	traceparent = "00-" + parentTrace + "-" + parentSpan + "-01"
)

// ask sends a chat with more headers, "name: value" each.
func ask(t *testing.T, front string, headers ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	body := strings.Replace(chat(`,"stream":true`), "how deep", planted+" how deep", 1)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, front+"/v1/chat/completions?secret="+planted, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", planted)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var got bytes.Buffer
	if _, err := got.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, got.Bytes()}
}

// A request's spans, from its client to its engine, tell what was decided and
// nothing of the prompt.
func TestTracing(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	must(t, database, "store", "migrate")
	_, publish := publisher(t, database)
	publish(featurestore.Bundle{LLM: llm, Bytes: smallBundle(t), Accepted: true})
	spans := newReceiver(t)
	tracing := fmt.Sprintf("tracing: {endpoint: %q, sample_ratio: 0}\n", spans.url)

	forecasts := start(t, database, "predictor", "--config", write(t, "predictor.yaml", tracing+"predictor: {listen: \"127.0.0.1:0\", admin: \"\"}\n"))
	address := attribute(t, forecasts.logged("predictor serves"), "addr")
	engine := overhear(t, startFleet(t, 1)[0])
	router := startRouter(t, database, "endpoints: "+listed([]string{engine.url}), "extproc_listen: 127.0.0.1:0", "extproc_tls: \"off\"",
		fmt.Sprintf("forecast: {address: %q, deadline: 2s, probe_interval: 100ms, return_hold: 100ms}", address), "\n"+tracing)
	eventually(t, func(context.Context) error {
		if a := router.served(t); a.header.Get("X-Spillway-Policy") != "predicted" {
			return fmt.Errorf("decided by %s", a.header.Get("X-Spillway-Policy"))
		}
		return nil
	})
	if got := engine.last("Traceparent"); !strings.HasSuffix(got, "-00") {
		t.Errorf("of a request that is not sampled the engine was told %q", got)
	}

	a := ask(t, router.front, "traceparent: "+traceparent, "tracestate: a=b")
	if a.status != http.StatusOK {
		t.Fatalf("answered %d: %s", a.status, a.body)
	}
	told, state := engine.last("Traceparent"), engine.last("Tracestate")
	proxy, err := extproctest.Dial(attribute(t, router.logged("router serves"), "extproc"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	const proxied = "11112222333344445555666677778888"
	request := extproctest.Post("/v1/chat/completions", []byte(strings.Replace(chat(""), "how", planted, 1)))
	request.Headers = append(request.Headers, [2]string{"traceparent", "00-" + proxied + "-" + parentSpan + "-01"})
	stream, err := proxy.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Pick(request); err != nil {
		t.Fatal(err)
	}
	stream.Abort()

	router.terminate()
	forecasts.terminate()
	for _, p := range []*process{router.process, forecasts} {
		if code := p.wait(); code != 0 {
			t.Errorf("%s ended with %d", p.name, code)
		}
	}

	got := spans.spans(parentTrace)
	parents := map[string]string{}
	for name, s := range got {
		parents[name] = "?"
		for above, p := range got {
			if p.id == s.parent {
				parents[name] = above
			}
		}
		if s.parent == parentSpan {
			parents[name] = "the client"
		}
	}
	want := map[string]string{"request": "the client", "decision": "request", "forecast": "decision", "upstream": "request",
		"latency.v1.Predictor/Forecast": "forecast", "answered": "latency.v1.Predictor/Forecast"}
	if diff := cmp.Diff(want, parents); diff != "" {
		t.Errorf("spans and their parents (-want +got):\n%s", diff)
	}
	if up := got["upstream"]; told != "00-"+parentTrace+"-"+up.id+"-01" || state != "a=b" {
		t.Errorf("the engine was told %q and %q, the span is %+v", told, state, up)
	}
	decision := got["decision"].attributes
	for key, want := range map[string]string{
		"spillway.llm": llm, "spillway.policy": "predicted", "spillway.candidates": "1", "spillway.state": "live",
		"spillway.endpoint": a.header.Get("X-Spillway-Endpoint"), "spillway.decision": a.decisionID(),
	} {
		if !strings.Contains(decision[key], want) {
			t.Errorf("%s is %q, want %q", key, decision[key], want)
		}
	}
	if s := got["request"].attributes; !strings.Contains(s["spillway.status"], "ok") || s["spillway.ttft"] == "" || !strings.Contains(s["http.response.status_code"], "200") {
		t.Errorf("the request's span says %v", s)
	}
	picked := spans.spans(proxied)
	if r, d := picked["request"], picked["decision"]; r.parent != parentSpan || d.parent != r.id || !r.failed {
		t.Errorf("of a proxy's request that nobody answered: %+v", picked)
	}
	if text := spans.text(t); strings.Contains(text, planted) || strings.Contains(text, "/v1/") || strings.Contains(text, "127.0.0.1:1") && strings.Contains(text, "client.address") {
		t.Errorf("spans tell of the client: %s", text)
	}
	for trace := range tracesOf(spans) {
		if trace != parentTrace && trace != proxied {
			t.Errorf("trace %s was not asked for: %+v", trace, spans.spans(trace))
		}
	}
}

func tracesOf(r *receiver) map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]bool{}
	for _, in := range r.all {
		for _, from := range in.ResourceSpans {
			for _, scope := range from.ScopeSpans {
				for _, s := range scope.Spans {
					all[hex.EncodeToString(s.TraceId)] = true
				}
			}
		}
	}
	return all
}

// Without tracing what a client says of its trace reaches the engine as it came.
func TestTraceparentPasses(t *testing.T) {
	t.Parallel()
	engine := overhear(t, startFleet(t, 1)[0])
	router := startRouter(t, "postgres://spillway@127.0.0.1:1/spillway", unforecast, "endpoints: "+listed([]string{engine.url}))
	router.served(t)
	if got := engine.last("Traceparent"); got != "" {
		t.Errorf("nobody named a trace, and the engine was told %q", got)
	}
	ask(t, router.front, "traceparent: "+traceparent, "tracestate: a=b", "baggage: c=d")
	for name, want := range map[string]string{"Traceparent": traceparent, "Tracestate": "a=b", "Baggage": "c=d"} {
		if got := engine.last(name); got != want {
			t.Errorf("the engine was told %s %q, want %q", name, got, want)
		}
	}
}

// A receiver that is not there costs no request, and is named once.
func TestTracingReceiverAway(t *testing.T) {
	t.Parallel()
	router := startRouter(t, "postgres://spillway@127.0.0.1:1/spillway", unforecast, "endpoints: "+listed(startFleet(t, 1)),
		"\ntracing: {endpoint: \"http://127.0.0.1:1\", protocol: http, sample_ratio: 1}\n")
	router.served(t)
	router.terminate()
	if code := router.wait(); code != 0 {
		t.Errorf("ended with %d", code)
	}
	router.logged("spans were not sent to tracing.endpoint")
}
