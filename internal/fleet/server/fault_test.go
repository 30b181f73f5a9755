package server_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/spillway-llm/spillway/internal/fleet/server"
)

func pair(t *testing.T) *server.Server {
	t.Helper()
	return serve(t, server.Config{Groups: []server.Group{{Profile: quick(), Count: 2}}})
}

func setFault(t *testing.T, url string, fault object) {
	t.Helper()
	if status, got := post(t, url, fault); status != 200 || got["kind"] != fault["kind"] {
		t.Fatalf("fault %v: status %d, %v", fault, status, got)
	}
}

func clearFault(t *testing.T, url string) {
	t.Helper()
	resp, err := send(t, t.Context(), "DELETE", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Fatalf("DELETE: status %d", resp.StatusCode)
	}
}

func short() object { return object{"model": "m", "prompt": "x", "max_tokens": 11, "ignore_eos": true} }

func TestSlowFault(t *testing.T) {
	url := serve(t, server.Config{}).URLs()[0]
	between := func() float64 { return one(t, scrape(t, url), "vllm:inter_token_latency_seconds").value }
	post(t, url+"/v1/completions", short())
	normal := between()
	setFault(t, url+"/admin/fault", object{"kind": "slow", "factor": 3})
	post(t, url+"/v1/completions", short())
	if ratio := (between() - normal) / normal; ratio < 2.99 || ratio > 3.01 {
		t.Errorf("tokens came %v times as slowly, want 3", ratio)
	}
}

func TestErrorFault(t *testing.T) {
	s := pair(t)
	url := s.URLs()[0]
	setFault(t, url+"/admin/fault", object{"kind": "error", "status": 503})
	for _, path := range []string{"/v1/completions", "/v1/chat/completions"} {
		if status, got := post(t, url+path, short()); status != 503 || at(got, "error", "code") != 503.0 {
			t.Errorf("%s: status %d, %v", path, status, got)
		}
	}
	if status, _ := post(t, s.URLs()[1]+"/v1/completions", short()); status != 200 {
		t.Errorf("the other endpoint answers %d", status)
	}
	clearFault(t, url+"/admin/fault")
	if status, _ := post(t, url+"/v1/completions", short()); status != 200 {
		t.Errorf("afterwards: status %d", status)
	}
}

func TestHangFault(t *testing.T) {
	s := pair(t)
	url := s.URLs()[0]
	setFault(t, url+"/admin/fault", object{"kind": "hang"})
	ask := short()
	ask["stream"] = true
	resp, err := send(t, t.Context(), "POST", url+"/v1/completions", ask)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	post(t, s.URLs()[1]+"/v1/completions", short())
	if got := one(t, scrape(t, url), "vllm:generation_tokens_total").value; got != 0 {
		t.Errorf("a hung engine generated %v tokens", got)
	}
	clearFault(t, url+"/admin/fault")
	if got := len(events(t, resp.Body)); got != 11 {
		t.Errorf("%d tokens after the hang, want 11", got)
	}
}

func TestResetFault(t *testing.T) {
	url := serve(t, server.Config{}).URLs()[0]
	long := object{"model": "m", "prompt": "x", "max_tokens": 500000, "ignore_eos": true, "stream": true}
	open, err := send(t, t.Context(), "POST", url+"/v1/completions", long)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Body.Close()
	rd := bufio.NewReader(open.Body)
	if _, err := rd.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	setFault(t, url+"/admin/fault", object{"kind": "reset"})
	if _, err := io.Copy(io.Discard, rd); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the open stream ended with %v, want a reset", err)
	}

	ask := short()
	ask["stream"] = true
	resp, err := send(t, t.Context(), "POST", url+"/v1/completions", ask)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if !errors.Is(err, syscall.ECONNRESET) || strings.Count(string(got), "data: ") > 1 {
		t.Errorf("a new stream ended with %v after %q", err, got)
	}
	ask["stream"] = false
	if resp, err := send(t, t.Context(), "POST", url+"/v1/completions", ask); err == nil {
		resp.Body.Close()
		t.Errorf("an answer in one piece came with status %d", resp.StatusCode)
	}
	clearFault(t, url+"/admin/fault")
	if status, _ := post(t, url+"/v1/completions", short()); status != 200 {
		t.Errorf("afterwards: status %d", status)
	}
}

func TestRefuseFaultEndsAnIncarnation(t *testing.T) {
	s := pair(t)
	url, peer := s.URLs()[0], s.URLs()[1]
	prompt := object{"model": "m", "prompt": strings.Repeat("x", 1000), "max_tokens": 1}
	post(t, url+"/v1/completions", prompt)
	started := one(t, scrape(t, url), "process_start_time_seconds").value
	open, err := send(t, t.Context(), "POST", url+"/v1/completions", object{"model": "m", "prompt": "x", "max_tokens": 500000, "ignore_eos": true, "stream": true})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Body.Close()

	setFault(t, url+"/admin/fault", object{"kind": "refuse"})
	if _, err := http.Get(url + "/health"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, want a refused connection", err)
	}
	if _, err := io.Copy(io.Discard, open.Body); err == nil {
		t.Error("an open stream ended as if it were complete")
	}
	if got := s.Endpoint(0).Fault(); got.Kind != server.Refuse {
		t.Errorf("fault is %+v", got)
	}

	clearFault(t, peer+"/admin/fault?endpoint=0")
	status, got := post(t, url+"/v1/completions", prompt)
	if cached := at(got, "usage", "prompt_tokens_details", "cached_tokens"); status != 200 || cached != 0.0 {
		t.Errorf("new incarnation: status %d, cached %v", status, cached)
	}
	if again := one(t, scrape(t, url), "process_start_time_seconds").value; again <= started {
		t.Errorf("start time %v after %v", again, started)
	}
}

func TestSetFaultBeforeRun(t *testing.T) {
	s, err := server.New(server.Config{Model: "m", Groups: []server.Group{{Profile: quick(), Count: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Endpoint(0).SetFault(server.Fault{Kind: server.Refuse}); err != nil {
		t.Fatal(err)
	}
	if _, err := http.Get(s.URLs()[0] + "/health"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, want a refused connection", err)
	}
}

func TestBadFaults(t *testing.T) {
	url := serve(t, server.Config{}).URLs()[0] + "/admin/fault"
	for _, c := range []struct {
		query string
		body  any
	}{
		{"", object{"kind": "explode"}},
		{"", object{"kind": "slow"}},
		{"", object{"kind": "slow", "factor": -1}},
		{"", object{"kind": "error", "status": 200}},
		{"", object{"kind": "hang", "for": "ever"}},
		{"?endpoint=1", object{"kind": "hang"}},
		{"?endpoint=x", object{"kind": "hang"}},
		{"", []byte("{")},
	} {
		if status, got := post(t, url+c.query, c.body); status != 400 || at(got, "error", "message") == nil {
			t.Errorf("%v: status %d, %v", c, status, got)
		}
	}
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, _ := io.ReadAll(resp.Body); strings.TrimSpace(string(got)) != `{"kind":"none"}` {
		t.Errorf("after bad faults the fault is %s", got)
	}
}
