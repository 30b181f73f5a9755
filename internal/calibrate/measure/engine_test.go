package measure_test

import (
	"context"
	"math"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-llm/spillway/internal/calibrate"
	"github.com/spillway-llm/spillway/internal/calibrate/measure"
	"github.com/spillway-llm/spillway/internal/fleet/server"
	"github.com/spillway-llm/spillway/internal/openai"
)

// memory is a network of one host without a wire.
type memory struct {
	calls  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newMemory() *memory { return &memory{calls: make(chan net.Conn), closed: make(chan struct{})} }

// Accept implements net.Listener.
func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.calls:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (m *memory) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

// Addr implements net.Listener.
func (m *memory) Addr() net.Addr { return m }

// Network implements net.Addr.
func (*memory) Network() string { return "memory" }

// String implements net.Addr.
func (*memory) String() string { return "10.0.0.1:8000" }

func (m *memory) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case m.calls <- there:
		return here, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// A calibration of a simulated engine finds the costs that it was made with. It
// runs in virtual time, so that nothing but the engine and the measurement
// decides what comes out.
func TestFindsASimulatedEngine(t *testing.T) {
	for _, api := range []openai.API{openai.Completions, openai.Chat} {
		t.Run(api.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { findsASimulatedEngine(t, api) })
		})
	}
}

func findsASimulatedEngine(t *testing.T, api openai.API) {
	truth := quick()
	wire := newMemory()
	s, err := server.New(server.Config{
		Model: "m", Groups: []server.Group{{Profile: truth, Count: 1}},
		Listen: func(string) (net.Listener, error) { return wire, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	transport := &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext:         wire.dial,
	}
	defer func() {
		transport.CloseIdleConnections()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	c := measure.Config{
		URL: s.URLs()[0] + "/v1", API: api, Seed: 1, Timeout: 10 * time.Second, MaxTokens: 1 << 20,
		Client: &http.Client{Transport: transport},
	}
	progress := 0
	c.Progress = func(done int, next string) {
		if done < progress || next == "" {
			t.Errorf("progress from %d to %d, then %q", progress, done, next)
		}
		progress = done
	}
	e, err := measure.Look(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	told := e.Engine
	if e.LLM != "m" || e.Owner != "spillway" || told.KVCapacityTokens != truth.KVCapacityTokens || told.BlockTokens != truth.BlockTokens || told.MaxModelTokens == 0 {
		t.Errorf("it tells %s of %s, %+v", e.LLM, e.Owner, told)
	}
	told.MaxBatchedTokens, told.MaxNumSeqs = truth.MaxBatchedTokens, truth.MaxNumSeqs
	plan, err := calibrate.NewPlan(told, calibrate.Wish{Batches: []int{1, 4, 12}, Rounds: 1, Output: 32, Repeats: 3, Sizes: []int{256, 1024, 2048, 4096, 8192}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := e.Run(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	if progress == 0 || progress > plan.Tokens() {
		t.Errorf("%d tokens were used, the plan said at most %d", progress, plan.Tokens())
	}
	for _, p := range m.Prefills {
		if p.PromptTokens > p.Size || float64(p.PromptTokens) < 0.98*float64(p.Size) || p.CachedTokens != 0 {
			t.Errorf("planned %d tokens, sent %d of which %d were cached", p.Size, p.PromptTokens, p.CachedTokens)
		}
	}
	f, err := calibrate.Fit(m, truth.MaxBatchedTokens)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v, overhead %v, held out %+v, peak %+v", f.Coefficients, f.Overhead, f.HeldOut, f.Peak)
	for _, x := range []struct {
		name             string
		got, want, share float64
	}{
		{"a", f.Coefficients.A, truth.Coefficients.A, 0.03},
		{"b", f.Coefficients.B, truth.Coefficients.B, 0.05},
		{"c", f.Coefficients.C, truth.Coefficients.C, 0.1},
		{"d", f.Coefficients.D, truth.Coefficients.D, 0.05},
		{"e", f.Coefficients.E, truth.Coefficients.E, 0.05},
		{"peak", f.Peak.Throughput, 4055 / (truth.Coefficients.A + float64(truth.Coefficients.Work(4055, 4055))), 0.05},
		{"tokens per byte", f.Tokenizer.TokensPerByte, 0.25, 0.01},
	} {
		if math.Abs(x.got/x.want-1) > x.share {
			t.Errorf("%s is %v, want %v within %.0f %%", x.name, x.got, x.want, 100*x.share)
		}
	}
}
