package route_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

const llm = "qwen3-32b"

// class is the engine that the endpoints of these tests run.
var class = func() physics.Profile {
	p, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		panic(err)
	}
	return p
}()

var unknown = feature.Seconds(feature.Unknown)

// fleet is a pool that a test changes.
type fleet struct {
	mu        sync.Mutex
	snapshot  *pool.Snapshot
	lives     uint64
	failed    map[string]int
	succeeded map[string]int
}

func (f *fleet) Snapshot() *pool.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snapshot
}

func (f *fleet) ReportFailure(id string) { f.mu.Lock(); defer f.mu.Unlock(); f.failed[id]++ }
func (f *fleet) ReportSuccess(id string) { f.mu.Lock(); defer f.mu.Unlock(); f.succeeded[id]++ }

// reports is how often an endpoint was said to fail and to do well.
func (f *fleet) reports(id string) [2]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return [2]int{f.failed[id], f.succeeded[id]}
}

// change publishes a snapshot in which edit was done to every endpoint; one
// that edit leaves without an id is gone.
func (f *fleet) change(edit func(*pool.State)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := &pool.Snapshot{Epoch: f.snapshot.Epoch + 1}
	for _, e := range f.snapshot.Endpoints {
		if edit(&e); e.ID != "" {
			next.Endpoints = append(next.Endpoints, e)
		}
	}
	f.snapshot = next
}

// only changes one endpoint.
func (f *fleet) only(id string, edit func(*pool.State)) {
	f.change(func(e *pool.State) {
		if e.ID == id {
			edit(e)
		}
	})
}

func (f *fleet) leave(id string) { f.only(id, func(e *pool.State) { e.ID = "" }) }

// join adds a healthy endpoint in its first life.
func (f *fleet) join(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lives++
	next := &pool.Snapshot{Epoch: f.snapshot.Epoch + 1, Endpoints: slices.Clone(f.snapshot.Endpoints)}
	next.Endpoints = append(next.Endpoints, pool.State{
		ID: id, URL: "http://" + id, Class: class.Name, LLMs: []string{llm}, Incarnation: f.lives, Healthy: true,
		Running: 0, Waiting: 0, KVUsed: 0, ScrapedAt: time.Now(),
		KVCapacityTokens: feature.Unknown, BlockTokens: feature.Unknown, MaxNumSeqs: feature.Unknown,
	})
	slices.SortFunc(next.Endpoints, func(a, b pool.State) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	f.snapshot = next
}

// scrape makes every endpoint's numbers fresh.
func (f *fleet) scrape() { f.change(func(e *pool.State) { e.ScrapedAt = time.Now() }) }

// oracle is a predictor that a test plays.
type oracle struct {
	mu     sync.Mutex
	answer func(ctx context.Context, llm string, vectors []feature.Vector, out []feature.Forecast) (route.Answer, error)
	calls  int
	asked  map[any][]feature.Vector // by the request's name
}

// name is the key under which a request's context carries its name.
type name struct{}

func named(n any) context.Context { return context.WithValue(context.Background(), name{}, n) }

func (o *oracle) Forecast(ctx context.Context, llm string, vectors []feature.Vector, out []feature.Forecast) (route.Answer, error) {
	o.mu.Lock()
	o.calls++
	o.asked[ctx.Value(name{})] = slices.Clone(vectors)
	answer := o.answer
	o.mu.Unlock()
	return answer(ctx, llm, vectors, out)
}

func (o *oracle) set(answer func(context.Context, string, []feature.Vector, []feature.Forecast) (route.Answer, error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answer = answer
}

func (o *oracle) count() int { o.mu.Lock(); defer o.mu.Unlock(); return o.calls }

// about returns what was asked about a request.
func (o *oracle) about(n any) []feature.Vector {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked[n]
}

// residual makes the forecast of a vector: its prior times e^r, p90 20 %
// above.
func residual(v *feature.Vector, r float64) feature.Forecast {
	p := v.Prior()
	f := feature.Forecast{Support: 1}
	f.Residual.TTFT = feature.LogQuantiles{P50: r, P90: r + math.Log(1.2)}
	f.Residual.TPOT = f.Residual.TTFT
	e := feature.Seconds(math.Exp(r))
	f.TTFT = feature.Quantiles{P50: p.TTFT * e, P90: p.TTFT * e * 1.2}
	f.TPOT = feature.Quantiles{P50: p.TPOT * e, P90: p.TPOT * e * 1.2}
	return f
}

// well answers that all is as the prior says, from bundle 7.
func well(_ context.Context, _ string, vectors []feature.Vector, out []feature.Forecast) (route.Answer, error) {
	for i := range vectors {
		out[i] = residual(&vectors[i], 0)
	}
	return route.Answer{Bundle: 7, Validated: time.Now()}, nil
}

// fails answers nothing but err.
func fails(err error) func(context.Context, string, []feature.Vector, []feature.Forecast) (route.Answer, error) {
	return func(context.Context, string, []feature.Vector, []feature.Forecast) (route.Answer, error) {
		return route.Answer{}, err
	}
}

// hangs until its caller gives up.
func hangs(ctx context.Context, _ string, _ []feature.Vector, _ []feature.Forecast) (route.Answer, error) {
	<-ctx.Done()
	return route.Answer{}, ctx.Err()
}

// memory records in memory.
type memory struct {
	mu        sync.Mutex
	decisions map[feature.ID]feature.Decision
	outcomes  map[feature.ID]feature.Outcome
	twice     int // outcomes of a decision that had one
}

func (m *memory) RecordDecision(d feature.Decision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.decisions[d.ID] = d
}

func (m *memory) RecordOutcome(o feature.Outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.outcomes[o.Decision]; there {
		m.twice++
	}
	m.outcomes[o.Decision] = o
}

func (m *memory) decision(t *route.Ticket) feature.Decision {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.decisions[t.ID()]
}

func (m *memory) outcome(t *route.Ticket) feature.Outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.outcomes[t.ID()]
}

// world is a router with all that it needs, played by the test.
type world struct {
	*route.Router
	fleet  *fleet
	oracle *oracle
	memory *memory
	reg    *prometheus.Registry
	log    *lines
}

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (w *world) logged() string {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	return w.log.text.String()
}

// newWorld has n endpoints e000, e001 and so on, and a predictor that is well.
// Nothing is explored.
func newWorld(t testing.TB, n int, change func(*route.Config)) *world {
	t.Helper()
	w := &world{
		fleet:  &fleet{snapshot: &pool.Snapshot{}, failed: map[string]int{}, succeeded: map[string]int{}},
		oracle: &oracle{answer: well, asked: map[any][]feature.Vector{}},
		memory: &memory{decisions: map[feature.ID]feature.Decision{}, outcomes: map[feature.ID]feature.Outcome{}},
		reg:    prometheus.NewRegistry(),
		log:    &lines{},
	}
	for i := range n {
		w.fleet.join(id(i))
	}
	c := route.Defaults()
	c.Name, c.DefaultProfile = "test", class
	c.Settings.Exploration = 0
	if change != nil {
		change(&c)
	}
	r, err := route.New(c, w.fleet, w.oracle, w.memory, slog.New(slog.NewTextHandler(w.log, nil)), w.reg)
	if err != nil {
		t.Fatal(err)
	}
	w.Router = r
	return w
}

func id(i int) string { return fmt.Sprintf("e%03d", i) }

// run keeps the router running until the returned function has returned.
func (w *world) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	return func() { cancel(); <-done }
}

// pass lets virtual time pass and everything that it starts happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// inLive runs f in virtual time on a world whose predictor was accepted.
func inLive(t *testing.T, n int, change func(*route.Config), f func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, n, change)
		defer w.run()()
		pass(1300 * time.Millisecond) // the LLM is listed, then probed
		w.mustBe(t, "live")
		w.fleet.scrape()
		f(t, w)
	})
}

// state is the forecast state of the LLM and the reason for it.
func (w *world) state() (state, reason string) {
	for _, l := range w.Status().LLMs {
		if l.LLM == llm {
			return l.State, l.Reason
		}
	}
	return "", ""
}

func (w *world) mustBe(t testing.TB, want string) {
	t.Helper()
	if got, why := w.state(); got != want {
		t.Fatalf("state is %q (%s), want %s", got, why, want)
	}
}

// query is a streaming request with 4,000 bytes of prompt that begin with
// text.
func query(text string) *route.Query {
	prompt := make([]byte, 4000)
	copy(prompt, text)
	return &route.Query{
		LLM: llm, Prompt: spans(prompt), PromptBytes: len(prompt),
		MaxOutputTokens: -1, Streaming: true, SLOTTFT: unknown, SLOTPOT: unknown,
	}
}

// spans yields b in two pieces.
func spans(b []byte) iter.Seq[route.Piece] {
	return pieces(route.Piece{Bytes: b[:len(b)/3]}, route.Piece{Bytes: b[len(b)/3:]})
}

func pieces(all ...route.Piece) iter.Seq[route.Piece] { return slices.Values(all) }

// begin decides q, which must work.
func (w *world) begin(t testing.TB, q *route.Query) *route.Ticket {
	t.Helper()
	ticket, err := w.Begin(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

// ended is an end of which nothing was measured.
func ended(how feature.Status, code int) route.End {
	return route.End{
		Status: how, HTTPStatus: code, TTFT: unknown, TPOT: unknown, E2E: unknown,
		PromptTokens: feature.Unknown, OutputTokens: feature.Unknown, CachedTokens: feature.Unknown,
	}
}

// served is a good end with everything measured but what was cached.
func served(prompt, output float64) route.End {
	return route.End{
		Status: feature.OK, HTTPStatus: 200, TTFT: 0.2, TPOT: 0.02, E2E: 0.2 + feature.Seconds(0.02*output),
		PromptTokens: prompt, OutputTokens: output, CachedTokens: feature.Unknown,
	}
}

// idle fails the test unless nothing is in flight anywhere.
func (w *world) idle(t testing.TB) {
	t.Helper()
	for _, e := range w.Status().Endpoints {
		if e.InFlight != 0 || e.PrefillTokens != 0 {
			t.Errorf("%s has %v requests and %v prefill tokens in flight after all ended", e.ID, e.InFlight, e.PrefillTokens)
		}
	}
}

// count reads one counter or gauge by its labels' values.
func (w *world) count(t testing.TB, metric string, labels ...string) float64 {
	t.Helper()
	m := w.metric(t, metric, labels...)
	return m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

// metric is one metric by its labels' values, nil where there is none.
func (w *world) metric(t testing.TB, metric string, labels ...string) *dto.Metric {
	t.Helper()
	families, err := w.reg.Gather()
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
				return m
			}
		}
	}
	return nil
}
