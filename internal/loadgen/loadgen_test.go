package loadgen_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spillway-llm/spillway/internal/loadgen"
	"github.com/spillway-llm/spillway/internal/openai"
	"github.com/spillway-llm/spillway/internal/trace"
)

// engine is a server in memory that takes a second to the first token and a
// tenth of one for each other.
type engine struct {
	mu     sync.Mutex
	bodies [][]byte
	at     []time.Duration // arrivals since start
	start  time.Time
	tokens int
	stall  time.Duration // before the first token, instead of a second
}

func (e *engine) client() *http.Client { return &http.Client{Transport: e} }

func (e *engine) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.bodies = append(e.bodies, body)
	e.at = append(e.at, time.Since(e.start))
	e.mu.Unlock()
	pr, pw := io.Pipe()
	go e.answer(req.Context(), pw)
	h := http.Header{}
	h.Set("x-spillway-decision", "0190-id; valve opened")
	h.Set("x-spillway-endpoint", "e1")
	return &http.Response{StatusCode: 200, Header: h, Body: pr, Request: req}, nil
}

func (e *engine) answer(ctx context.Context, w *io.PipeWriter) {
	send := func(after time.Duration, data string) {
		// Timers that are due at once crash the race detector when two
		// goroutines of a bubble poll them (Go 1.26).
		if after > 0 {
			select {
			case <-time.After(after):
			case <-ctx.Done():
				_ = w.CloseWithError(ctx.Err())
			}
		}
		_, _ = io.WriteString(w, "data: "+data+"\n\n")
	}
	stall := e.stall
	if stall == 0 {
		stall = time.Second
	}
	send(0, `{"choices":[{"delta":{"role":"assistant"}}]}`)
	send(stall, `{"choices":[{"delta":{"content":"a"}}]}`)
	for range e.tokens - 1 {
		send(100*time.Millisecond, `{"choices":[{"delta":{"content":"a"}}]}`)
	}
	send(0, fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":4}}}`, e.tokens))
	send(0, `[DONE]`)
	_ = w.Close()
}

func items(n int, every time.Duration) []trace.Item {
	var all []trace.Item
	for i := range n {
		all = append(all, trace.Item{At: time.Duration(i) * every, PromptTokens: 10, OutputTokens: 3})
	}
	return all
}

func run(t *testing.T, ctx context.Context, c loadgen.Config) loadgen.Summary {
	t.Helper()
	c.URL, c.Model = "http://engine/v1/", "m"
	s, err := loadgen.Run(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOpenLoopKeepsTheTracesTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{start: time.Now(), tokens: 3}
		var lines bytes.Buffer
		s := run(t, t.Context(), loadgen.Config{
			Client: e.client(), Items: slices.Values(items(4, time.Second)), Speedup: 4, Records: &lines,
		})
		want := []time.Duration{0, 250 * time.Millisecond, 500 * time.Millisecond, 750 * time.Millisecond}
		if d := cmp.Diff(want, e.at); d != "" {
			t.Errorf("arrivals: %s", d)
		}
		if s.Sent != 4 || s.OK != 4 || s.OutputTokens != 12 || s.HitRate != 0.4 || s.Elapsed != 1.95 {
			t.Errorf("%+v", s)
		}
		if s.TTFT.P50 != 1 || s.TPOT.P99 != 0.1 || s.E2E.P90 != 1.2 || s.Late.P99 != 0 || s.E2E.N != 4 {
			t.Errorf("%+v", s)
		}
		var first loadgen.Record
		if err := json.NewDecoder(&lines).Decode(&first); err != nil {
			t.Fatal(err)
		}
		wantRecord := loadgen.Record{
			Schema: 1, Decision: "0190-id", DecisionReason: "0190-id; valve opened", Endpoint: "e1", Status: loadgen.OK,
			HTTPStatus: 200, SentAt: e.start.UTC(), TTFT: 1, TPOT: 0.1, E2E: 1.2, PromptTokens: 10, CachedTokens: 4, OutputTokens: 3,
		}
		first.SentAt = first.SentAt.UTC()
		if d := cmp.Diff(wantRecord, first); d != "" {
			t.Error(d)
		}
	})
}

func TestClosedLoopKeepsItsConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{start: time.Now(), tokens: 1}
		s := run(t, t.Context(), loadgen.Config{Client: e.client(), Items: slices.Values(items(5, 0)), Concurrency: 2})
		slices.Sort(e.at)
		if d := cmp.Diff([]time.Duration{0, 0, time.Second, time.Second, 2 * time.Second}, e.at); d != "" {
			t.Errorf("arrivals: %s", d)
		}
		if s.OK != 5 || s.Late.N != 0 || s.TPOT.N != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestRunEnds(t *testing.T) {
	endless := func(yield func(trace.Item) bool) {
		for i := 0; yield(trace.Item{At: time.Duration(i) * time.Second, PromptTokens: 1, OutputTokens: 1}); i++ {
		}
	}
	for name, c := range map[string]struct {
		config loadgen.Config
		sent   int
	}{
		"at the limit":                   {loadgen.Config{Limit: 7}, 7},
		"at the limit, closed":           {loadgen.Config{Limit: 7, Concurrency: 3}, 7},
		"after the duration":             {loadgen.Config{Duration: 5 * time.Second}, 5},
		"after the duration, closed":     {loadgen.Config{Duration: 5 * time.Second, Concurrency: 2}, 10},
		"after the duration, in a hurry": {loadgen.Config{Duration: 5 * time.Second, Speedup: 10}, 50},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &engine{start: time.Now(), tokens: 1}
				c.config.Client, c.config.Items = e.client(), endless
				if s := run(t, t.Context(), c.config); s.Sent != c.sent || s.OK != c.sent || s.Interrupted {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

func TestInterruptionIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		e := &engine{start: time.Now(), tokens: 1}
		s := run(t, ctx, loadgen.Config{Client: e.client(), Items: slices.Values(items(100, time.Second))})
		if !s.Interrupted || s.Sent != 3 || s.OK != 2 || s.Canceled != 1 || s.Failed != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestTooManyInFlightAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{start: time.Now(), tokens: 1}
		s := run(t, t.Context(), loadgen.Config{Client: e.client(), Items: slices.Values(items(5, time.Millisecond)), MaxInFlight: 2})
		if s.Sent != 2 || s.Failed != 3 || s.FailedBy[loadgen.Overrun] != 3 {
			t.Errorf("%+v", s)
		}
	})
}

func TestTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{start: time.Now(), tokens: 100}
		var got loadgen.Record
		s := run(t, t.Context(), loadgen.Config{
			Client: e.client(), Items: slices.Values(items(1, 0)), Timeout: 3 * time.Second, OnRecord: func(r loadgen.Record) { got = r },
		})
		if s.FailedBy[loadgen.Timeout] != 1 || s.TTFT.N != 0 {
			t.Errorf("%+v", s)
		}
		if got.TTFT != 1 || !math.IsNaN(float64(got.E2E)) || got.OutputTokens < 19 {
			t.Errorf("%+v", got)
		}
	})
}

func TestPromptsShareTheirBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{start: time.Now(), tokens: 1}
		all := []trace.Item{
			{PromptTokens: 1500, OutputTokens: 7, Blocks: []uint64{1, 2, 3}, BlockTokens: 512},
			{At: time.Second, PromptTokens: 1100, Blocks: []uint64{1, 2, 3}, BlockTokens: 512},
			{At: 2 * time.Second, PromptTokens: 1100, Blocks: []uint64{1, 9, 3}, BlockTokens: 512},
			{At: 3 * time.Second, PromptTokens: 300}, {At: 4 * time.Second, PromptTokens: 300},
		}
		prompts := func(seed uint64, api openai.API) []string {
			e.bodies = nil
			run(t, t.Context(), loadgen.Config{Client: e.client(), Items: slices.Values(all), Seed: seed, API: api})
			var out []string
			for _, b := range e.bodies {
				r, err := openai.Scan(b, api.Path())
				if err != nil || !r.Stream || !r.IncludeUsage || r.Model != "m" {
					t.Fatalf("%s: %+v, %v", b, r, err)
				}
				last := r.Prompt[len(r.Prompt)-1]
				out = append(out, string(b[last.Start:last.End]))
			}
			return out
		}
		p := prompts(1, openai.Chat)
		for i, item := range all {
			if len(p[i]) != item.PromptTokens*loadgen.BytesPerToken {
				t.Errorf("prompt %d: %d bytes", i, len(p[i]))
			}
		}
		const block = 512 * loadgen.BytesPerToken
		if p[0][:1100*4] != p[1] {
			t.Error("the last block, cut short, is no longer a prefix")
		}
		if p[0][:block] != p[2][:block] || p[0][block:block+8] == p[2][block:block+8] || p[0][2*block:2*block+8] != p[2][2*block:2*block+8] {
			t.Error("blocks do not follow their ids")
		}
		if p[3][:8] == p[4][:8] {
			t.Error("prompts without blocks share a prefix")
		}
		if d := cmp.Diff(p, prompts(1, openai.Completions)); d != "" {
			t.Error("the same seed made another prompt")
		}
		if q := prompts(2, openai.Chat); q[0][:8] == p[0][:8] || q[3][:8] == p[3][:8] {
			t.Error("another seed made the same prompt")
		}
	})
}

func TestFailuresAreNamed(t *testing.T) {
	mux := http.NewServeMux()
	answer := func(path, body string) {
		mux.HandleFunc("POST "+path+"/v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
	}
	const token = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
	answer("/short", token)
	answer("/error", token+"data: {\"error\":{\"message\":\"boom\"}}\n\ndata: [DONE]\n\n")
	mux.HandleFunc("/busy/", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(429)
		_, _ = w.Write(openai.ErrorBody(429, "", "", "no room"))
	})
	mux.HandleFunc("/cut/", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, token)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	for url, want := range map[string]string{
		server.URL + "/short":            "incomplete 200 the stream ended without [DONE]",
		server.URL + "/error":            "stream_error 200 boom",
		server.URL + "/busy":             "http_error 429 no room",
		server.URL + "/cut":              "reset 200 unexpected EOF",
		"http://" + gone.Addr().String(): "refused -1 dial tcp",
	} {
		var got string
		s, err := loadgen.Run(t.Context(), loadgen.Config{
			URL: url, Model: "m", Items: slices.Values(items(1, 0)),
			OnRecord: func(r loadgen.Record) { got = fmt.Sprint(r.Status, " ", int(r.HTTPStatus), " ", r.Error) },
		})
		if err != nil || !strings.HasPrefix(got, want) || s.Failed != 1 || s.E2E.N != 0 {
			t.Errorf("%s: %q, want %q; %+v %v", url, got, want, s, err)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestAFailingWriterEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{start: time.Now(), tokens: 1}
		_, err := loadgen.Run(t.Context(), loadgen.Config{
			URL: "http://e", Model: "m", Client: e.client(), Items: slices.Values(items(100, time.Second)), Records: full{},
		})
		if err == nil || err.Error() != "write record 0: disk full" || len(e.at) > 2 {
			t.Errorf("%v after %d requests", err, len(e.at))
		}
	})
}

func TestRunRefuses(t *testing.T) {
	good := loadgen.Config{URL: "http://h", Model: "m", Items: slices.Values(items(1, 0))}
	for want, change := range map[string]func(*loadgen.Config){
		`url "h:1"`:            func(c *loadgen.Config) { c.URL = "h:1" },
		"model is missing":     func(c *loadgen.Config) { c.Model = "" },
		"nothing to send":      func(c *loadgen.Config) { c.Items = nil },
		"speedup -1":           func(c *loadgen.Config) { c.Speedup = -1 },
		"concurrency -1":       func(c *loadgen.Config) { c.Concurrency = -1 },
		"api embeddings":       func(c *loadgen.Config) { c.API = openai.Embeddings },
		"must not be negative": func(c *loadgen.Config) { c.Timeout = -1 },
	} {
		c := good
		change(&c)
		if _, err := loadgen.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestProgressIsDrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []int{0, 2} {
			e := &engine{start: time.Now(), tokens: 1}
			var bar bytes.Buffer
			run(t, t.Context(), loadgen.Config{Client: e.client(), Items: slices.Values(items(2, time.Second)), Limit: limit, Progress: &bar})
			if !strings.Contains(bar.String(), "requests") {
				t.Errorf("%q", bar.String())
			}
		}
	})
}
