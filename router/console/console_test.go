package console_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/console"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

var (
	noon    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	unknown = feature.Seconds(feature.Unknown)
)

// sample is a router of two endpoints, one of which is ill.
func sample() route.Status {
	none := feature.Number(feature.Unknown)
	s := route.Status{
		Router: "r1",
		LLMs: []route.LLMStatus{{
			LLM: "qwen", State: "stale", Reason: "bundle 7 was validated 3m0s ago", Since: noon, Policy: "predicted", Fallback: "combined-load", Bundle: 7, Decisions: 1234, Forecasts: 900,
		}},
		Endpoints: []route.EndpointStatus{
			{ID: "e1", URL: "http://10.0.0.1:8000", Class: "h100", Healthy: true, Standing: "good", Age: 0.25, Waiting: 3, Running: 17, KVUsed: 0.42, InFlight: 20, PrefillTokens: 4096, SpeedFactor: 1.25, Chosen: 99, Share: 0.75},
			{ID: "e2", Class: "h100", Age: unknown, Waiting: none, Running: none, KVUsed: none, SpeedFactor: 1, Share: none},
		},
		Peers: []route.PeerStatus{
			{Address: "10.0.0.2:8084", Router: "r2", State: "connected", Age: 0.125, InFlight: 7},
			{Address: "10.0.0.3:8084", State: "silent", Age: unknown},
		},
		Sources: []pool.SourceStatus{
			{Source: "service llm/vllm", Endpoints: 2, Heard: noon},
			{Source: "pods llm/app=x", Heard: noon, Error: "forbids to list pods", Since: noon, Complaints: []string{"pod llm/a has no port http"}},
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
			ForecastTPOT: unknown, ActualTPOT: 0.02,
		})
	}
	return s
}

// lately is a history with one period, of now.
func lately(string) []route.Period {
	p := route.Period{Began: time.Now().Truncate(route.PeriodLength), Decisions: 8, Forecasts: 6, Spilled: 2}
	p.TTFT.Add(&feature.Quantiles{P50: 0.2, P90: 0.5}, 0.3)
	p.TTFT.Add(&feature.Quantiles{P50: 0.2, P90: 0.5}, 0.6)
	return []route.Period{p}
}

type forgetful struct{}

func (forgetful) RecordDecision(feature.Decision) {}
func (forgetful) RecordOutcome(feature.Outcome)   {}

// config is a console of the sample, without a store.
func config() console.Config {
	return console.Config{Status: sample, History: lately, Recent: console.NewRing(forgetful{})}
}

func visit(h http.Handler, path string) (status int, body string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

// holds checks that a page was served and has all that it should.
func holds(t *testing.T, h http.Handler, path string, want int, texts ...string) string {
	t.Helper()
	status, body := visit(h, path)
	if status != want {
		t.Errorf("%s: status %d, want %d: %s", path, status, want, body)
	}
	for _, text := range texts {
		if !strings.Contains(body, text) {
			t.Errorf("%s lacks %q", path, text)
		}
	}
	if strings.Contains(body, "NaN") {
		t.Errorf("%s shows NaN", path)
	}
	return body
}

func TestOverview(t *testing.T) {
	body := holds(t, console.New(config()), "/", 200,
		"router r1",
		`<span class="badge warn">stale</span>`,
		"bundle 7 was validated 3m0s ago",
		`<dd>combined-load <span class="badge warn">fallback</span></dd>`,
		"<strong>1 of 2</strong> endpoints healthy",
		"42 %", "75 %", "250 ms",
		`<td>r2</td><td><span class="badge good">connected</span></td><td class="n">125 ms</td><td class="n">7</td>`,
		`<td>10.0.0.3:8084</td><td></td><td><span class="badge bad">silent</span></td><td class="n">–</td>`,
		`<th scope="row">service llm/vllm</th>`, `<span class="badge good">current</span>`,
		`<span class="badge bad">as last known</span>`, "<p>since 12:00:00: forbids to list pods</p><p>pod llm/a has no port http</p>",
		"too old &lt;b&gt;",
		"60 requests, median error 9.1 %",
		"no request with a forecast and a measurement yet",
		"Nothing has been decided yet.",
		`<td class="n">200 ms</td><td class="n">424 ms</td><td class="n">50 %</td>`, // the minute: geometric means and coverage
	)
	if n := strings.Count(body, "<circle"); n != 60 {
		t.Errorf("%d points", n)
	}
	if strings.Index(body, `<th scope="row" title="">e2`) > strings.Index(body, `<th scope="row" title="http://10.0.0.1:8000">e1`) {
		t.Error("the unhealthy endpoint does not stand first")
	}
	if strings.Index(body, "too old") > strings.Index(body, "first bundle") {
		t.Error("changes are not newest first")
	}
	if strings.Contains(body, `action="drill"`) {
		t.Error("there is a button for a drill that is not enabled")
	}
}

// What the pages load is here, and they load nothing from elsewhere.
func TestPagesLoadOnlyTheirOwn(t *testing.T) {
	h := console.New(config())
	for _, path := range []string{"/assets/console.css", "/assets/console.js", "/assets/icon.svg", "/uplot/uplot.js", "/uplot/uplot.css"} {
		_, body := visit(h, "/")
		if !strings.Contains(body, `"`+path[1:]+`"`) {
			t.Errorf("the page does not use %s", path)
		}
		if status, body := visit(h, path); status != 200 || body == "" {
			t.Errorf("%s: %d", path, status)
		}
	}
	for _, path := range []string{"/", "/bundles", "/decisions/x"} {
		_, body := visit(h, path)
		body = strings.ReplaceAll(body, "http://10.0.0.1:8000", "") // an endpoint's address, as text
		for _, foreign := range []string{`="http:`, `="https:`, `="//`, `="/`, "style=", "onclick="} {
			if strings.Contains(body, foreign) {
				t.Errorf("%s has %s", path, foreign)
			}
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q", policy)
	}
}

// The kept library is what its note says it is.
func TestLibraryIsAsWrittenDown(t *testing.T) {
	note, err := os.ReadFile("uplot/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"uplot.js", "uplot.css"} {
		b, err := os.ReadFile("uplot/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if sum := fmt.Sprintf("%x", sha256.Sum256(b)); !bytes.Contains(note, []byte(sum)) {
			t.Errorf("%s has the sum %s, which uplot/README.md does not name", name, sum)
		}
	}
}

func TestEmptyPage(t *testing.T) {
	c := config()
	c.Status = func() route.Status { return route.Status{} }
	c.History = func(string) []route.Period { return nil }
	body := holds(t, console.New(c), "/", 200, "There are no endpoints", "No LLM is known yet", "Nothing happened in the last quarter")
	if strings.Contains(body, "<circle") {
		t.Error("there are points")
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
		c := config()
		c.Status = func() route.Status { return s }
		_, body := visit(console.New(c), "/")
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

// A drill is asked for by the page's own form alone.
func TestDrill(t *testing.T) {
	var asked []time.Duration
	c := config()
	c.Drill = func(length time.Duration) error {
		if length > time.Hour {
			return errors.New("too long")
		}
		asked = append(asked, length)
		return nil
	}
	h := console.New(c)
	holds(t, h, "/", 200, `action="drill"`)
	post := func(length string, header ...string) int {
		r := httptest.NewRequest("POST", "/drill", strings.NewReader(url.Values{"for": {length}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	for _, x := range []struct {
		length string
		header []string
		want   int
	}{
		{"1m0s", []string{"Sec-Fetch-Site", "same-origin"}, http.StatusSeeOther},
		{"0s", nil, http.StatusSeeOther},
		{"1m0s", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{"1m0s", []string{"Origin", "https://elsewhere.example"}, http.StatusForbidden},
		{"soon", nil, http.StatusBadRequest},
		{"2h", nil, http.StatusBadRequest},
	} {
		if got := post(x.length, x.header...); got != x.want {
			t.Errorf("%s %v: %d, want %d", x.length, x.header, got, x.want)
		}
	}
	if len(asked) != 2 || asked[0] != time.Minute || asked[1] != 0 {
		t.Errorf("asked for %v", asked)
	}
	c.Drill = nil
	h = console.New(c)
	if got := post("1m0s"); got == http.StatusSeeOther {
		t.Error("a drill is taken that is not enabled")
	}
}

// store is a Store that a test fills; wrong is its only answer, unless nil.
type store struct {
	wrong     error
	decisions map[feature.ID]feature.Decision
	bundles   []console.Bundle
}

func (s *store) Decision(_ context.Context, id feature.ID) (feature.Decision, []feature.Outcome, error) {
	d, ok := s.decisions[id]
	if s.wrong == nil && !ok {
		return d, nil, console.ErrNotFound
	}
	return d, nil, s.wrong
}

func (s *store) Bundles(context.Context, string, int) ([]console.Bundle, error) {
	return s.bundles, s.wrong
}

func (s *store) Turns(context.Context, string, int) ([]console.Turn, error) {
	return []console.Turn{{Version: 8, ValidatedAt: noon, Reason: "published"}}, s.wrong
}

func TestBundles(t *testing.T) {
	c := config()
	holds(t, console.New(c), "/bundles", 200, "no store")
	kept := &store{wrong: errors.New("connection refused")}
	c.Store = kept
	holds(t, console.New(c), "/bundles", 200, "The store does not answer", "connection refused")
	kept.wrong = nil
	holds(t, console.New(c), "/bundles?a=9&b=8", 200, "No bundle has been made")
	kept.bundles = []console.Bundle{
		{Version: 9, CreatedAt: noon, Verdict: json.RawMessage(`{"accepted":false,"reasons":["worse than <CART>"],"versus":{"mean":0.5,"low":null},"heads":[{"loss":1},{"loss":2}]}`)},
		{Version: 8, CreatedAt: noon, Accepted: true, Verdict: json.RawMessage(`{"accepted":true,"versus":{"mean":-0.25,"low":null},"heads":[{"loss":1}]}`), Metadata: json.RawMessage(`{"rows":12345678901234567890}`)},
		{Version: 7, CreatedAt: noon, Verdict: json.RawMessage(`{"cut`)},
	}
	h := console.New(c)
	holds(t, h, "/bundles", 200, "worse than &lt;CART&gt;", `<span class="badge good">accepted</span> <span class="badge calm">served</span>`, "published")
	body := holds(t, h, "/bundles?a=9&b=8", 200,
		"Bundle 9 beside 8", "5 differ, 2 are the same",
		`verdict.versus.mean</th><td class="long">0.5</td><td class="long">-0.25</td>`,
		`verdict.heads[1].loss</th><td class="long">2</td><td class="long">–</td>`,
		`metadata.rows</th><td class="long">–</td><td class="long">12345678901234567890</td>`)
	if strings.Contains(body, "heads[0]") {
		t.Error("what is the same is listed")
	}
	holds(t, h, "/bundles?b=8", 200, `verdict.heads[0].loss</th><td class="long">1</td></tr>`)
	holds(t, h, "/bundles?a=7", 200, "can&#39;t be read")
	if body := holds(t, h, "/bundles?a=x&b=4", 200, "Bundles of qwen"); strings.Contains(body, `id="compared"`) {
		t.Error("bundles are compared that are not there")
	}
	holds(t, h, "/bundles?a=8&b=8", 200, "Nothing differs.")
	kept.bundles[2].Verdict = json.RawMessage(strings.Repeat("[", 1e5))
	holds(t, h, "/bundles?a=7", 200, "nested too deep")
}
