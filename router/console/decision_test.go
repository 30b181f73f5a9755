package console_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/console"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/route"
)

// named is the id of the nth decision.
func named(n int) (id feature.ID) {
	id[0], id[14], id[15] = 1, byte(n>>8), byte(n)
	return id
}

// decision is one of predicted between two endpoints: a holds the prompt.
func decision(t testing.TB, n int, at time.Time) feature.Decision {
	t.Helper()
	p, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		t.Fatal(err)
	}
	in := &policy.Input{
		Policy: policy.Predicted, Fallback: policy.CombinedLoad, Forecasts: true, Settings: policy.Defaults(), Seed: 1,
		Request: policy.Request{PromptTokens: 1000, ExpectedOutputTokens: 100, MaxOutputTokens: feature.Unknown, Completions: 1, SLOTTFT: unknown, SLOTPOT: unknown},
	}
	in.Settings.Exploration = 0
	for i, ttft := range []float64{0.31, 0.22} {
		c := policy.Candidate{
			Endpoint: string('a' + rune(i)), Class: "h100", CachedTokens: 900 * float64(1-i), HotTokens: 1000, SpeedSteps: 500, Coefficients: p.Coefficients,
			Load: feature.Load{Profile: feature.Profile{
				PeakPrefillThroughput: p.PeakPrefillThroughput, MaxBatchedTokens: float64(p.MaxBatchedTokens), MaxNumSeqs: float64(p.MaxNumSeqs),
				KVCapacityTokens: float64(p.KVCapacityTokens), SpeedFactor: 1,
			}},
		}
		prior := c.Prior(&in.Request)
		c.Residual.TTFT = feature.LogQuantiles{P50: math.Log(ttft / float64(prior.TTFT)), P90: math.Log(1.2 * ttft / float64(prior.TTFT))}
		c.Residual.TPOT = feature.LogQuantiles{P50: math.Log(0.02 / float64(prior.TPOT)), P90: math.Log(0.025 / float64(prior.TPOT))}
		in.Candidates = append(in.Candidates, c)
	}
	var out policy.Choice
	if err := policy.Decide(in, &out); err != nil {
		t.Fatal(err)
	}
	d := feature.Decision{
		ID: named(n), DecidedAt: at, LLM: "qwen", Router: "r0", Mode: "live", State: "live", Bundle: 7,
		Policy: out.Policy, PolicyVersion: policy.Version, Reason: out.Reason.String(), Complete: true, Seed: in.Seed,
		PromptTokens: 1000, ExpectedOutputTokens: 100, SLOTTFT: unknown, SLOTPOT: unknown,
		States: policy.Encode(nil, in), Chosen: in.Candidates[out.Index].Endpoint, Propensity: out.Probabilities[out.Index],
	}
	for i, c := range in.Candidates {
		d.Candidates = append(d.Candidates, feature.Candidate{Endpoint: c.Endpoint, Class: c.Class, Corrected: out.Forecasts[i], Cost: out.Costs[i], Probability: out.Probabilities[i]})
	}
	return d
}

func outcome(n, attempt int, how feature.Status) feature.Outcome {
	return feature.Outcome{Decision: named(n), Attempt: attempt, Status: how, Endpoint: "a", TTFT: 0.333, TPOT: 0.02, E2E: 2.3, OutputTokens: 100, CachedTokens: feature.Unknown}
}

func TestDecisionIsExplained(t *testing.T) {
	c := config()
	h := console.New(c)
	c.Recent.RecordDecision(decision(t, 1, noon))
	path := "/decisions/" + named(1).String()
	holds(t, h, "/", 200, `href="decisions/`+named(1).String()+`"`, `<span class="badge calm">open</span>`)
	holds(t, h, path, 200,
		"It has not ended yet", `data-ended="0"`,
		`a <span class="dim">chosen with probability 1</span>`,
		"the same choice and probabilities",
		"The best warm endpoint is expected to take 310 ms, the best other 220 ms: a gap of 90.0 ms. It opens above 5.00 s; margin 4.91 s.",
		"holds up decoding", `<rect class="term0" x="0.00"`,
	)
	c.Recent.RecordOutcome(outcome(1, 1, feature.UpstreamError))
	c.Recent.RecordOutcome(outcome(1, 2, feature.OK))
	holds(t, h, "/", 200, `<span class="badge good">ok</span>`, `<td class="n">333 ms</td>`)
	holds(t, h, path, 200, `data-ended="2"`, "upstream_error", "on a, attempt 2: TTFT 333 ms, TPOT 20.0 ms, whole 2.30 s, 100 tokens out, – of the prompt cached")
}

func TestDecisionOfTheStore(t *testing.T) {
	c := config()
	path := "/decisions/" + named(1).String()
	holds(t, console.New(c), path, 404, "it has no store")
	holds(t, console.New(c), "/decisions/1", 400, "is not a UUID")
	kept := &store{}
	c.Store = kept
	holds(t, console.New(c), path, 404, "in neither this router&#39;s memory nor the store")
	kept.wrong = errors.New("connection refused")
	holds(t, console.New(c), path, 502, "the store does not answer: connection refused")
	kept.wrong = nil
	kept.decisions = map[feature.ID]feature.Decision{named(1): decision(t, 1, noon)}
	holds(t, console.New(c), path, 200, "the same choice and probabilities")
}

// counting counts what a Ring hands on.
type counting struct{ decisions, outcomes int }

func (c *counting) RecordDecision(feature.Decision) { c.decisions++ }
func (c *counting) RecordOutcome(feature.Outcome)   { c.outcomes++ }

// A Ring hands on everything, keeps a few a second, forgets the oldest and
// allocates nothing.
func TestRing(t *testing.T) {
	next := &counting{}
	c := config()
	c.Recent = console.NewRing(next)
	h := console.New(c)
	d := decision(t, 0, noon)
	n := 0
	record := func(at time.Time) {
		d.ID, d.DecidedAt = named(n), at
		c.Recent.RecordDecision(d)
		c.Recent.RecordOutcome(outcome(n, 1, feature.OK))
		n++
	}
	there := func(i int) bool {
		status, _ := visit(h, "/decisions/"+named(i).String())
		return status == 200
	}
	for range 200 {
		record(noon)
	}
	if next.decisions != 200 || next.outcomes != 200 {
		t.Errorf("handed on %+v of 200", *next)
	}
	if !there(0) || !there(63) || there(64) || there(199) {
		t.Error("of decisions at once a burst of 64 should be kept")
	}
	for i := range 1500 {
		record(noon.Add(time.Duration(i) * 50 * time.Millisecond))
	}
	held, newest := 0, 0
	for i := range n {
		if there(i) {
			held, newest = held+1, i
		}
	}
	if held != 256 || there(0) || n-newest > 6 { // 20 a second come and 4 are kept
		t.Errorf("%d decisions are held, the newest is number %d of %d; want 256, one of the last 6 and not the oldest", held, newest, n)
	}
	at := noon.Add(time.Hour)
	if got := testing.AllocsPerRun(2000, func() {
		at = at.Add(time.Second)
		record(at)
	}); got > 0 {
		t.Errorf("%v allocations a request", got)
	}
}

// The events bring every section and the charts once, then what changes, and
// end with who listens. More than 32 are not served.
func TestEvents(t *testing.T) {
	server := httptest.NewServer(console.New(config()))
	defer server.Close()
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	open := func() *http.Response {
		r, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/events?llm=qwen", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	answer := open()
	defer answer.Body.Close()
	if kind := answer.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("it is %s", kind)
	}
	counts := map[string]int{}
	var page strings.Builder
	for lines := bufio.NewScanner(answer.Body); counts["time"] < 2 && lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			counts[name]++
		}
		page.WriteString(lines.Text())
	}
	if counts["section"] != 7 || counts["charts"] < 1 {
		t.Errorf("the events were %v", counts)
	}
	for _, id := range []string{"summary", "fleet", "peers", "minutes", "decisions", "scatter", "changes"} {
		if !strings.Contains(page.String(), fmt.Sprintf("id=%q", id)) {
			t.Errorf("no section %s", id)
		}
	}
	for range 31 {
		defer open().Body.Close()
	}
	last := open()
	last.Body.Close()
	if last.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the 33rd: %d", last.StatusCode)
	}
}

// BenchmarkRing is what one request pays for being remembered, or not.
func BenchmarkRing(b *testing.B) {
	r := console.NewRing(forgetful{})
	d := decision(b, 0, noon)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		d.ID, d.DecidedAt = named(n), noon.Add(time.Duration(n)*time.Millisecond)
		r.RecordDecision(d)
		r.RecordOutcome(outcome(n, 1, feature.OK))
	}
}

// BenchmarkOverview is what an open page costs a second, with 100 endpoints.
func BenchmarkOverview(b *testing.B) {
	c := config()
	s := sample()
	for i := range 98 {
		e := s.Endpoints[0]
		e.ID = fmt.Sprint("e", i+3)
		s.Endpoints = append(s.Endpoints, e)
	}
	c.Status = func() route.Status { return s }
	for i := range 64 {
		c.Recent.RecordDecision(decision(b, i, noon))
	}
	h := console.New(c)
	for b.Loop() {
		visit(h, "/")
	}
}
