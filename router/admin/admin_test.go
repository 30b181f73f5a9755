package admin_test

import (
	"encoding/json"
	"fmt"
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
	for i := range 60 {
		s.Recent = append(s.Recent, route.Recent{
			ID: fmt.Sprint("id-", i), At: noon, LLM: "qwen", Endpoint: "e1", Policy: "predicted", Reason: "least cost", Status: "ok",
			ForecastTTFT: feature.Seconds(0.1 * float64(i+1)), ActualTTFT: feature.Seconds(0.11 * float64(i+1)),
			ForecastTPOT: feature.Seconds(unknown), ActualTPOT: 0.02,
		})
	}
	return s
}

func visit(a http.Handler, path string) (status int, kind, body string) {
	w := httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Header().Get("Content-Type"), w.Body.String()
}

func TestPage(t *testing.T) {
	a := admin.New(sample, prometheus.NewRegistry())
	status, kind, body := visit(a, "/")
	if status != 200 || kind != "text/html; charset=utf-8" {
		t.Fatalf("%d %s: %s", status, kind, body)
	}
	for what, want := range map[string]string{
		"the router":            "router r1",
		"the state":             `<span class="badge warn">stale</span>`,
		"its reason":            "bundle 7 was validated 3m0s ago",
		"who decides":           "<dd>combined-load</dd>",
		"health":                "1 of 2 endpoints healthy",
		"a fraction in percent": "42 %",
		"an age":                "250 ms",
		"unknown as a dash":     `<td class="n">–</td>`,
		"a peer":                `<td>r2</td><td><span class="badge good">connected</span></td><td class="n">125 ms</td><td class="n">7</td>`,
		"a silent peer":         `<td>10.0.0.3:8084</td><td></td><td><span class="badge bad">silent</span></td><td class="n">–</td>`,
		"escaped text":          "too old &lt;b&gt;",
		"the plot's error":      "60 requests, median error 9.1 %",
		"a plot without points": "no request with a forecast and a measurement yet",
		"the newest request":    "id-59",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s: %q", what, want)
		}
	}
	if n := strings.Count(body, "<circle"); n != 60 {
		t.Errorf("%d points", n)
	}
	if strings.Contains(body, "NaN") || strings.Contains(body, "id-20") {
		t.Error("the page shows NaN, or more requests than it should")
	}
	if strings.Index(body, "too old") > strings.Index(body, "first bundle") {
		t.Error("changes are not newest first")
	}
	for _, path := range []string{"/status.css", "/refresh.js"} {
		if !strings.Contains(body, `"`+path[1:]+`"`) {
			t.Errorf("the page does not use %s", path)
		}
		if status, _, body := visit(a, path); status != 200 || body == "" {
			t.Errorf("%s: %d", path, status)
		}
	}
	for _, foreign := range []string{"http://", "https://", "//"} {
		if strings.Contains(strings.ReplaceAll(body, "http://10.0.0.1:8000", ""), `="`+foreign) {
			t.Errorf("the page loads something from %s", foreign)
		}
	}
}

// A router that has seen nothing has a page too.
func TestEmptyPage(t *testing.T) {
	status, _, body := visit(admin.New(func() route.Status { return route.Status{} }, prometheus.NewRegistry()), "/")
	if status != 200 || !strings.Contains(body, "There are no endpoints") || strings.Contains(body, "<circle") {
		t.Errorf("%d %s", status, body)
	}
}

// Every point lies inside the frame and on the right side of the diagonal.
func TestPlotsStayInTheirFrame(t *testing.T) {
	for name, pairs := range map[string][][2]feature.Seconds{
		"one":          {{1, 1}},
		"far apart":    {{1e-6, 1e6}, {1e6, 1e-6}},
		"equal":        {{0.03, 0.03}, {0.03, 0.03}},
		"not positive": {{0, 1}, {1, 0}, {-1, 1}, {2, 3}},
	} {
		s := route.Status{}
		for _, p := range pairs {
			s.Recent = append(s.Recent, route.Recent{ForecastTTFT: p[0], ActualTTFT: p[1]})
		}
		_, _, body := visit(admin.New(func() route.Status { return s }, prometheus.NewRegistry()), "/")
		circles := strings.Split(body, "<circle ")[1:]
		i := 0
		for _, p := range pairs {
			if !(p[0] > 0 && p[1] > 0) {
				continue
			}
			var x, y float64
			if _, err := fmt.Sscanf(circles[i], `cx="%f" cy="%f"`, &x, &y); err != nil {
				t.Fatal(err)
			}
			i++
			if !(x >= 46 && x <= 286 && y >= 0 && y <= 240) {
				t.Errorf("%s: %v is drawn at %v, %v", name, p, x, y)
			}
			above := (240 - y) - (x - 46)
			if p[0] < p[1] && above <= 0 || p[0] > p[1] && above >= 0 || p[0] == p[1] && (above > 0.2 || above < -0.2) {
				t.Errorf("%s: %v is drawn %v above the diagonal", name, p, above)
			}
		}
		if i != len(circles) {
			t.Errorf("%s: %d points, want %d", name, len(circles), i)
		}
	}
}

func TestJSONHasNullForUnknown(t *testing.T) {
	status, kind, body := visit(admin.New(sample, prometheus.NewRegistry()), "/status.json")
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
	a := admin.New(func() route.Status { return s }, prometheus.NewRegistry())
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
	server := httptest.NewServer(admin.New(sample, reg))
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
	if status, _, _ := visit(admin.New(sample, reg), "/else"); status != 404 {
		t.Errorf("an unknown path: %d", status)
	}
}
