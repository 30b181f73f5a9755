package extproc_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/extproc"
	"github.com/spillway-llm/spillway/router/extproc/extproctest"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

// patience bounds every wait of these tests; it is never used up where they
// pass.
const patience = 20 * time.Second

const (
	llm       = "qwen"
	chat      = "/v1/chat/completions"
	streaming = `{"model":"qwen","stream":true,"messages":[{"role":"user","content":"hello there"}]}`
	plain     = `{"model":"qwen","messages":[{"role":"user","content":"hello there"}]}`
	token     = `data: {"choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n"
	last      = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	usage     = `data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\n"
	done      = "data: [DONE]\n\n"
	answer    = token + token + token + last + usage + done
)

// world is a picker on a loopback port with a real router behind it that takes
// turns, and a proxy that asks it.
type world struct {
	proxy    *extproctest.Proxy
	picker   *extproc.Picker
	router   *route.Router
	registry *prometheus.Registry
	pool     *fixedPool
	served   chan error // what Serve returned

	mu        sync.Mutex
	decisions []feature.Decision
	outcomes  []feature.Outcome
	settled   chan struct{} // gets one for every outcome
}

// address of the i-th endpoint: two share an ip.
func address(i int) string { return fmt.Sprintf("10.0.0.%d:%d", 1+i/2, 8000+i%2) }

func newWorld(t testing.TB, endpoints int, change func(*extproc.Config)) *world {
	return newWorldOf(t, endpoints, nil, change)
}

func newWorldOf(t testing.TB, endpoints int, route1 func(*route.Config), change func(*extproc.Config)) *world {
	t.Helper()
	w := &world{registry: prometheus.NewRegistry(), pool: newPool(endpoints), served: make(chan error, 1), settled: make(chan struct{}, 10000)}
	config := route.Defaults()
	config.Name, config.Policy, config.DefaultProfile = "test", policy.RoundRobin, physics.Profiles()[0]
	if route1 != nil {
		route1(&config)
	}
	quiet := slog.New(slog.DiscardHandler)
	var err error
	if w.router, err = route.New(config, w.pool, nil, w, quiet, w.registry); err != nil {
		t.Fatal(err)
	}
	c := extproc.Defaults()
	c.TLS.Mode = extproc.TLSOff
	if change != nil {
		change(&c)
	}
	if w.picker, err = extproc.New(c, w.router, quiet, w.registry); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { w.served <- w.picker.Serve(l) }()
	var protection *tls.Config
	if c.TLS.Mode != extproc.TLSOff {
		protection = &tls.Config{InsecureSkipVerify: true} // as gateways do
	}
	if w.proxy, err = extproctest.Dial(l.Addr().String(), protection); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.proxy.Close()
		w.picker.Close()
		if err := <-w.served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return w
}

func (w *world) RecordDecision(d feature.Decision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.decisions = append(w.decisions, d)
}

func (w *world) RecordOutcome(o feature.Outcome) {
	w.mu.Lock()
	w.outcomes = append(w.outcomes, o)
	w.mu.Unlock()
	w.settled <- struct{}{}
}

// outcome waits for the next outcome.
func (w *world) outcome(t testing.TB) feature.Outcome {
	t.Helper()
	select {
	case <-w.settled:
	case <-time.After(patience):
		t.Fatal("no outcome was recorded")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.outcomes[len(w.outcomes)-1]
}

// decided is the last decision.
func (w *world) decided() feature.Decision {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.decisions[len(w.decisions)-1]
}

// open begins a stream.
func (w *world) open(t testing.TB) *extproctest.Stream {
	t.Helper()
	s, err := w.proxy.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pick opens a stream and has a request decided.
func (w *world) pick(t testing.TB, r extproctest.Request) (*extproctest.Stream, extproctest.Picked) {
	t.Helper()
	s := w.open(t)
	p, err := s.Pick(r)
	if err != nil {
		t.Fatal(err)
	}
	return s, p
}

// inFlight is how many requests each endpoint has, by address.
func (w *world) inFlight() map[string]float64 {
	all := map[string]float64{}
	for _, e := range w.router.Status().Endpoints {
		if e.InFlight != 0 {
			all[strings.TrimPrefix(e.URL, "http://")] = float64(e.InFlight)
		}
	}
	return all
}

func (w *world) idle(t testing.TB) {
	t.Helper()
	for _, e := range w.router.Status().Endpoints {
		if e.InFlight != 0 || e.PrefillTokens != 0 {
			t.Errorf("%s has %v requests and %v prefill tokens in flight after all ended", e.ID, e.InFlight, e.PrefillTokens)
		}
	}
	if at, open := w.router.OldestOpen(); open {
		t.Errorf("a request of %v is still open", at)
	}
}

// count reads one counter or gauge by its labels' values.
func (w *world) count(t testing.TB, metric string, labels ...string) float64 {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, m := range family.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if slices.Equal(values, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s%v", metric, labels)
	return 0
}

// fixedPool is a pool that changes by the test's hand alone.
type fixedPool struct {
	mu       sync.Mutex
	snapshot *pool.Snapshot
	failures int
}

func newPool(n int) *fixedPool {
	s := &pool.Snapshot{Epoch: 1}
	for i := range n {
		s.Endpoints = append(s.Endpoints, pool.State{
			ID: fmt.Sprintf("e%03d", i), URL: "http://" + address(i), LLMs: []string{llm}, Incarnation: uint64(i + 1), Healthy: true, ScrapedAt: time.Now(),
			KVCapacityTokens: feature.Unknown, BlockTokens: feature.Unknown, MaxNumSeqs: feature.Unknown,
		})
	}
	return &fixedPool{snapshot: s}
}

func (p *fixedPool) Snapshot() *pool.Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.snapshot
}

// change publishes a snapshot in which edit was done to every endpoint.
func (p *fixedPool) change(edit func(*pool.State)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := &pool.Snapshot{Epoch: p.snapshot.Epoch + 1, Endpoints: slices.Clone(p.snapshot.Endpoints)}
	for i := range next.Endpoints {
		edit(&next.Endpoints[i])
	}
	p.snapshot = next
}

func (p *fixedPool) ReportFailure(string) { p.mu.Lock(); defer p.mu.Unlock(); p.failures++ }
func (p *fixedPool) ReportSuccess(string) {}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
