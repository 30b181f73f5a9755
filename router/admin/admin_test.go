package admin_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/admin"
	"github.com/spillway-llm/spillway/router/route"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func sample() route.Status {
	unknown := feature.Unknown
	s := route.Status{
		Router: "r1",
		LLMs: []route.LLMStatus{{
			LLM: "qwen", State: "stale", Reason: "bundle 7 was validated 3m0s ago", Since: noon, Policy: "predicted", Fallback: "combined-load", Bundle: 7, Decisions: 1234, Forecasts: 900,
		}},
		Endpoints: []route.EndpointStatus{
			{ID: "e1", URL: "http://10.0.0.1:8000", Class: "h100", Healthy: true, Age: 0.25, Waiting: 3, Running: 17, KVUsed: 0.42, InFlight: 20, PrefillTokens: 4096, SpeedFactor: 1.25, Chosen: 99},
			{ID: "e2", Class: "h100", Age: feature.Seconds(unknown), Waiting: feature.Number(unknown), Running: feature.Number(unknown), KVUsed: feature.Number(unknown), SpeedFactor: 1},
		},
		Peers: []route.PeerStatus{
			{Address: "10.0.0.2:8084", Router: "r2", State: "connected", Age: 0.125, InFlight: 7},
			{Address: "10.0.0.3:8084", State: "silent", Age: feature.Seconds(unknown)},
		},
		Changes: []route.Transition{
			{At: noon, LLM: "qwen", From: "cold", To: "live", Reason: "first bundle"},
			{At: noon.Add(time.Minute), LLM: "qwen", From: "live", To: "stale", Reason: "too old <b>"},
		},
	}
	return s
}

func visit(a http.Handler, path string) (status int, kind, body string) {
	w := httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Header().Get("Content-Type"), w.Body.String()
}

// pages plays the console.
func pages(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "the console's "+r.URL.Path) }

func newAdmin(status func() route.Status, reg *prometheus.Registry) *admin.Admin {
	return admin.New(status, reg, http.HandlerFunc(pages))
}

// What is not the listener's own is the console's.
func TestConsoleHasTheRest(t *testing.T) {
	for _, path := range []string{"/", "/bundles", "/decisions/1"} {
		if status, _, body := visit(newAdmin(sample, prometheus.NewRegistry()), path); status != 200 || body != "the console's "+path {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
}

func TestJSONHasNullForUnknown(t *testing.T) {
	status, kind, body := visit(newAdmin(sample, prometheus.NewRegistry()), "/status.json")
	if status != 200 || kind != "application/json" {
		t.Fatalf("%d %s: %s", status, kind, body)
	}
	var s struct {
		Endpoints []struct {
			ID      string
			Waiting *float64
		}
	}
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatal(err)
	}
	if *s.Endpoints[0].Waiting != 3 || s.Endpoints[1].Waiting != nil {
		t.Errorf("%+v", s)
	}
}

func TestReadiness(t *testing.T) {
	s := sample()
	a := newAdmin(func() route.Status { return s }, prometheus.NewRegistry())
	check := func(path string, want int, says string) {
		t.Helper()
		if status, _, body := visit(a, path); status != want || !strings.Contains(body, says) {
			t.Errorf("%s: %d %q, want %d %q", path, status, body, want, says)
		}
	}
	check("/readyz", 200, "1 of 2 endpoints")
	check("/readyz", 200, "qwen: stale")
	s.Endpoints[0].Draining = true
	check("/readyz", 503, "none of 2 endpoints is healthy")
	s.Endpoints = nil
	check("/readyz", 503, "none of 0")
	s = sample()
	a.Drain()
	check("/readyz", 503, "draining")
	check("/healthz", 200, "ok")
}

func TestMetricsAndProfiles(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "spillway_router_tests_total", Help: "Tests."})
	reg.MustRegister(c)
	c.Inc()
	server := httptest.NewServer(newAdmin(sample, reg))
	defer server.Close()
	for path, want := range map[string]string{
		"/metrics":                       "spillway_router_tests_total 1",
		"/debug/pprof/":                  "goroutine",
		"/debug/pprof/goroutine?debug=1": "goroutine profile",
		"/debug/pprof/symbol":            "num_symbols",
	} {
		r, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != 200 || !strings.Contains(string(body), want) {
			t.Errorf("%s: %v, %d, lacks %q", path, err, r.StatusCode, want)
		}
	}
}
