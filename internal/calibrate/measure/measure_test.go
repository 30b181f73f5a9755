package measure_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/calibrate"
	"github.com/spillway-llm/spillway/internal/calibrate/measure"
	"github.com/spillway-llm/spillway/internal/fleet/server"
	"github.com/spillway-llm/spillway/internal/openai"
	"github.com/spillway-llm/spillway/internal/physics"
)

// quick is an engine of which every cost shows within a few seconds.
func quick() physics.Profile {
	return physics.Profile{
		Name: "quick", Source: "test",
		Coefficients:     physics.Coefficients{A: 4e-3, B: 10e-6, C: 3e-9, D: 0.4e-3, E: 0.6e-6},
		MaxBatchedTokens: 4096, MaxNumSeqs: 64, KVCapacityTokens: 65536, BlockTokens: 16, PeakPrefillThroughput: 20000, NoiseStdDev: 0.01,
	}
}

// engine serves one simulated endpoint until the test ends.
func engine(t *testing.T, p physics.Profile) *server.Server {
	t.Helper()
	s, err := server.New(server.Config{Model: "m", Groups: []server.Group{{Profile: p, Count: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// config measures an endpoint with a client of its own.
func config(t *testing.T, url string) measure.Config {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	t.Cleanup(transport.CloseIdleConnections)
	return measure.Config{
		URL: url, API: openai.Completions, Seed: 1, Timeout: 10 * time.Second, MaxTokens: 1 << 20,
		Client: &http.Client{Transport: transport},
	}
}

// someone sends a request to an engine that others should leave alone, and
// returns when its first token is there. It goes on until the test ends.
func someone(t *testing.T, c measure.Config, tokens int) error {
	body := fmt.Sprintf(`{"model":"m","prompt":"someone else","max_tokens":%d,"ignore_eos":true,"stream":true}`, tokens)
	resp, err := c.Client.Post(c.URL+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	t.Cleanup(func() { resp.Body.Close() })
	_, err = resp.Body.Read(make([]byte, 1))
	return err
}

func TestLeavesABusyEngineAlone(t *testing.T) {
	c := config(t, engine(t, quick()).URLs()[0])
	if err := someone(t, c, 50_000); err != nil {
		t.Fatal(err)
	}
	if _, err := measure.Look(t.Context(), c); !errors.Is(err, measure.ErrBusy) || !strings.Contains(err.Error(), "1 requests run") {
		t.Errorf("looking at a busy engine: %v", err)
	}
	c.Force = true
	e, err := measure.Look(t.Context(), c)
	if err != nil {
		t.Fatalf("looking at a busy engine by force: %v", err)
	}
	m, err := e.Run(t.Context(), calibrate.Plan{Sizes: []int{100}, Repeats: 2})
	if err != nil || len(m.Prefills) != 2 {
		t.Errorf("measuring a busy engine by force: %+v, %v", m, err)
	}
}

// Someone's request that joins a batch ends the run, whether it is seen there
// or only the tokens that it left behind.
func TestGivesWayToOthers(t *testing.T) {
	for _, x := range []struct {
		name   string
		tokens int
	}{{"who stay", 50_000}, {"who are gone again", 3}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			c := config(t, engine(t, quick()).URLs()[0])
			joined := false
			c.Progress = func(_ int, next string) {
				if joined || !strings.HasPrefix(next, "decode of 2") {
					return
				}
				joined = true
				if err := someone(t, c, x.tokens); err != nil {
					t.Error(err)
				}
			}
			e, err := measure.Look(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			plan := calibrate.Plan{
				Sizes: []int{100}, Repeats: 1, Rounds: 1,
				Decodes: []calibrate.Decode{{Sequences: 1, PromptTokens: 50, OutputTokens: 20}, {Sequences: 2, PromptTokens: 50, OutputTokens: 200}},
			}
			if _, err := e.Run(t.Context(), plan); !errors.Is(err, measure.ErrBusy) {
				t.Errorf("error is %v, want that it is busy", err)
			}
			if !joined {
				t.Error("nobody joined")
			}
		})
	}
}

// peer is a server that misbehaves in one way.
type peer struct {
	models, metrics string // bodies; empty: status 404
	status          int    // of completions
	stream          string // body of completions
	stall           bool   // of completions, after the body
}

const (
	goodModels  = `{"object":"list","data":[{"id":"m","owned_by":"vllm","max_model_len":4096}]}`
	goodMetrics = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"
	goodToken   = `data: {"choices":[{"index":0,"text":" so","finish_reason":null}]}` + "\n\n"
	goodUsage   = `data: {"choices":[],"usage":{"prompt_tokens":200,"completion_tokens":2}}` + "\n\n"
	goodEnd     = "data: [DONE]\n\n"
)

func (p peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page := map[string]string{"/v1/models": p.models, "/metrics": p.metrics}
	if r.URL.Path != "/v1/completions" {
		if page[r.URL.Path] == "" {
			w.WriteHeader(http.StatusNotFound)
		}
		io.WriteString(w, page[r.URL.Path])
		return
	}
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	if p.status != 0 {
		w.WriteHeader(p.status)
	}
	io.WriteString(w, p.stream)
	w.(http.Flusher).Flush()
	if p.stall {
		<-r.Context().Done()
	}
}

func TestBrokenPeers(t *testing.T) {
	for _, x := range []struct {
		name  string
		peer  peer
		url   string // instead of the peer's
		llm   string
		is    error
		says  string
		limit int // tokens
	}{
		{name: "no URL", url: "home", says: `"home"`},
		{name: "nobody there", url: "http://127.0.0.1:1", says: "refused"},
		{name: "no API", peer: peer{metrics: goodMetrics}, is: measure.ErrAPI, says: "404"},
		{name: "a web page", peer: peer{models: "<html>"}, is: measure.ErrAPI, says: "/v1/models"},
		{name: "no models", peer: peer{models: `{"data":[]}`}, is: measure.ErrAPI},
		{name: "another LLM", peer: peer{models: goodModels, metrics: goodMetrics}, llm: "n", is: measure.ErrLLM, says: "serves m"},
		{name: "several LLMs", peer: peer{models: `{"data":[{"id":"a"},{"id":"b"}]}`}, is: measure.ErrLLM, says: "a, b"},
		{name: "no metrics", peer: peer{models: goodModels}, is: measure.ErrUnwatched, says: "404"},
		{name: "other metrics", peer: peer{models: goodModels, metrics: "up 1\n"}, is: measure.ErrUnwatched},
		{name: "busy", peer: peer{models: goodModels, metrics: "vllm:num_requests_running 3\nvllm:num_requests_waiting 2\n"}, is: measure.ErrBusy, says: "3 requests run and 2 wait"},
		{name: "fails", peer: peer{models: goodModels, metrics: goodMetrics, status: 500, stream: `{"error":{"message":"out of memory"}}`}, says: "status 500: out of memory"},
		{name: "refuses the key", peer: peer{models: goodModels, metrics: goodMetrics, status: 401}, is: measure.ErrKey, says: "401"},
		{name: "hangs", peer: peer{models: goodModels, metrics: goodMetrics, stall: true}, is: measure.ErrTimeout},
		{name: "stalls", peer: peer{models: goodModels, metrics: goodMetrics, stream: goodToken, stall: true}, is: measure.ErrTimeout},
		{name: "garbage", peer: peer{models: goodModels, metrics: goodMetrics, stream: "data: {]\n\nevent: \x00\n\n" + goodEnd}, is: measure.ErrAPI},
		{name: "nothing", peer: peer{models: goodModels, metrics: goodMetrics}, is: measure.ErrAPI},
		{name: "not streamed", peer: peer{models: goodModels, metrics: goodMetrics, stream: `{"choices":[{"text":"so"}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`}, is: measure.ErrAPI},
		{name: "cut off", peer: peer{models: goodModels, metrics: goodMetrics, stream: goodToken}, says: "cut off"},
		{name: "error in the stream", peer: peer{models: goodModels, metrics: goodMetrics, stream: goodToken + `data: {"error":{"message":"worker died"}}` + "\n\n" + goodEnd}, says: "worker died"},
		{name: "no usage", peer: peer{models: goodModels, metrics: goodMetrics, stream: goodToken + goodEnd}, is: measure.ErrUsage},
		{name: "same usage", peer: peer{models: goodModels, metrics: goodMetrics, stream: goodToken + goodUsage + goodEnd}, says: "can't be right"},
		{name: "few tokens", peer: peer{models: goodModels, metrics: goodMetrics}, limit: 1, is: measure.ErrTokens},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(x.peer)
			defer s.Close()
			c := config(t, s.URL)
			c.LLM, c.Timeout = x.llm, 300*time.Millisecond
			if x.url != "" {
				c.URL = x.url
			}
			if x.limit != 0 {
				c.MaxTokens = x.limit
			}
			e, err := measure.Look(t.Context(), c)
			if err == nil {
				_, err = e.Run(t.Context(), calibrate.Plan{Sizes: []int{100}, Repeats: 1})
			}
			if err == nil || x.is != nil && !errors.Is(err, x.is) || !strings.Contains(err.Error(), x.says) {
				t.Errorf("error is %v, want %v and %q", err, x.is, x.says)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(peer{models: goodModels, metrics: goodMetrics})
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	if _, err := measure.Look(t.Context(), config(t, s.URL)); !errors.Is(err, measure.ErrCertificate) {
		t.Errorf("an unknown authority: %v", err)
	}
	c := config(t, s.URL)
	c.Client = s.Client()
	if _, err := measure.Look(t.Context(), c); err != nil {
		t.Errorf("a known authority: %v", err)
	}
	plain := httptest.NewServer(peer{models: goodModels})
	defer plain.Close()
	if _, err := measure.Look(t.Context(), config(t, strings.Replace(plain.URL, "http:", "https:", 1))); err == nil || !strings.Contains(err.Error(), "http://") {
		t.Errorf("https to a server without it: %v", err)
	}
}

func TestKeyIsSent(t *testing.T) {
	var refused atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			refused.Add(1)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		peer{models: goodModels, metrics: goodMetrics, stream: goodToken + goodEnd}.ServeHTTP(w, r)
	}))
	defer s.Close()
	c := config(t, s.URL)
	if _, err := measure.Look(t.Context(), c); !errors.Is(err, measure.ErrKey) {
		t.Errorf("without a key: %v", err)
	}
	refused.Store(0)
	c.Key = "secret"
	e, err := measure.Look(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Run(t.Context(), calibrate.Plan{}); !errors.Is(err, measure.ErrUsage) || refused.Load() != 0 {
		t.Errorf("with a key: %v, %d refused", err, refused.Load())
	}
}

func TestEndsWithItsContext(t *testing.T) {
	s := httptest.NewServer(peer{models: goodModels, metrics: goodMetrics, stall: true})
	defer s.Close()
	e, err := measure.Look(t.Context(), config(t, s.URL))
	if err != nil {
		t.Fatal(err)
	}
	late := errors.New("late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, late)
	defer cancel()
	if _, err := e.Run(ctx, calibrate.Plan{}); !errors.Is(err, late) {
		t.Errorf("error is %v, want the context's cause", err)
	}
}
