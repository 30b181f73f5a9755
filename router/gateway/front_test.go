package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/gateway"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

// patience bounds every wait of these tests; it is never used up where they
// pass.
const patience = 20 * time.Second

// front is a gateway on a loopback port with a real router behind it. The
// router takes turns, so the first request goes to endpoint e1.
type front struct {
	url      string
	handler  http.Handler // what is served there
	registry *prometheus.Registry
	stop     context.CancelCauseFunc
	pool     *fixedPool
	outcomes chan feature.Outcome

	mu       sync.Mutex
	decision feature.Decision // the last one recorded
}

func newFront(t *testing.T, change func(*gateway.Config), urls ...string) *front {
	t.Helper()
	f := &front{registry: prometheus.NewRegistry(), pool: endpoints(urls), outcomes: make(chan feature.Outcome, 100)}
	profiles := physics.Profiles()
	config := route.Defaults()
	config.Name, config.Policy, config.DefaultProfile = "test", policy.RoundRobin, profiles[0]
	quiet := slog.New(slog.DiscardHandler)
	r, err := route.New(config, f.pool, nil, f, quiet, f.registry)
	if err != nil {
		t.Fatal(err)
	}
	c := gateway.Defaults()
	if change != nil {
		change(&c)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	if c.Transport == nil {
		transport := gateway.Transport(c.Timeouts.Connect)
		t.Cleanup(transport.CloseIdleConnections)
		c.Transport = transport
	}
	f.handler = gateway.New(c, r, quiet, f.registry)
	server := httptest.NewUnstartedServer(f.handler)
	base, stop := context.WithCancelCause(context.Background())
	f.stop = stop
	server.Config.BaseContext = func(net.Listener) context.Context { return base }
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	t.Cleanup(func() {
		stop(nil)
		server.Close()
	})
	f.url = server.URL
	return f
}

func (f *front) RecordDecision(d feature.Decision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decision = d
}

// decided is the last decision.
func (f *front) decided() feature.Decision {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.decision
}

func (f *front) RecordOutcome(o feature.Outcome) { f.outcomes <- o }

// outcome waits for the next recorded outcome.
func (f *front) outcome(t *testing.T) feature.Outcome {
	t.Helper()
	return receive(t, f.outcomes, "an outcome")
}

// count reads one counter.
func (f *front) count(t *testing.T, name, value string) float64 {
	t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if len(m.GetLabel()) == 0 || m.GetLabel()[0].GetValue() == value {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s{%s}", name, value)
	return 0
}

// endpoints is a pool that never changes.
func endpoints(urls []string) *fixedPool {
	s := &pool.Snapshot{Epoch: 1}
	for i, u := range urls {
		s.Endpoints = append(s.Endpoints, pool.State{
			ID: fmt.Sprintf("e%d", i+1), URL: u, LLMs: []string{"qwen", "team/llama"}, Incarnation: uint64(i + 1), Healthy: true, ScrapedAt: time.Now(),
		})
	}
	return &fixedPool{snapshot: s}
}

type fixedPool struct {
	snapshot *pool.Snapshot
	failures atomic.Int32
}

func (p *fixedPool) Snapshot() *pool.Snapshot { return p.snapshot }
func (p *fixedPool) ReportFailure(string)     { p.failures.Add(1) }
func (p *fixedPool) ReportSuccess(string)     {}

// engine serves one endpoint and counts its requests.
type engine struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request // bodies are in their own list
	body []string
}

func newEngine(t *testing.T, serve http.HandlerFunc) *engine {
	e := &engine{}
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		e.mu.Lock()
		e.seen, e.body = append(e.seen, r), append(e.body, string(body))
		e.mu.Unlock()
		serve(w, r)
	}))
	e.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	e.Start()
	t.Cleanup(e.Close)
	return e
}

func (e *engine) requests() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.seen)
}

func (e *engine) last() (*http.Request, string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen[len(e.seen)-1], e.body[len(e.body)-1]
}

// refusing returns the URL of a port that nobody listens on.
func refusing(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// send writes and flushes.
func send(w http.ResponseWriter, text string) {
	io.WriteString(w, text)
	w.(http.Flusher).Flush()
}

func streamHeaders(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream") }

const (
	roleEvent  = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	tokenEvent = `data: {"choices":[{"index":0,"delta":{"content":" a"}}]}` + "\n\n"
	endEvent   = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	usageEvent = `data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":8}}}` + "\n\n"
	doneEvent  = "data: [DONE]\n\n"

	chatBody   = `{"model":"qwen","stream":true, "messages":[{"role":"user","content":"h\u00e9llo"}]}`
	wholeBody  = `{"model":"qwen","messages":[{"role":"user","content":"hi"}]}`
	wholeReply = `{"choices":[{"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`
)

// post sends a chat request and returns the answer with its body unread.
func (f *front) post(t *testing.T, ctx context.Context, body string, header ...string) (*http.Response, error) {
	t.Helper()
	return f.do(t, ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(body), header...)
}

func (f *front) do(t *testing.T, ctx context.Context, method, path string, body io.Reader, header ...string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, f.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return (&http.Transport{DisableCompression: true, DisableKeepAlives: true}).RoundTrip(r)
}

// all reads an answer to its end.
func all(t *testing.T, a *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatalf("read the answer: %v", err)
	}
	return string(body)
}

func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

func unknown(s feature.Seconds) bool { return feature.IsUnknown(s) }

// readExactly reads n bytes of an answer that goes on.
func readExactly(t *testing.T, r io.Reader, n int) string {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// broken reads to the end of an answer that must not end well.
func broken(t *testing.T, r io.Reader) string {
	t.Helper()
	body, err := io.ReadAll(r)
	if err == nil {
		t.Errorf("the answer ended as if it were whole: %q", body)
	} else if !errors.Is(err, io.ErrUnexpectedEOF) && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the answer ended with %v", err)
	}
	return string(body)
}
