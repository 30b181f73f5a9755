package fleet_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
)

// answered is a request of 100 prompt tokens, 40 of them cached, that was
// answered with 11 tokens.
func answered(class string, at, ttft, tpot time.Duration) fleet.Outcome {
	return fleet.Outcome{
		Class: class, Status: feature.OK, At: at, TTFT: ttft, TPOT: tpot, E2E: ttft + 10*tpot,
		PromptTokens: 100, CachedTokens: 40, OutputTokens: 11, Alone: time.Second,
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestSummary(t *testing.T) {
	r := &fleet.Result{Engines: make([]fleet.Metrics, 2), Loaded: fleet.Window{From: 10 * time.Second, To: 20 * time.Second}, Ended: 30 * time.Second}
	r.Engines[1].Preemptions = 3
	r.Requests = []fleet.Outcome{
		answered("a", 5*time.Second, time.Second, 100*time.Millisecond), // warm-up
		answered("a", 10*time.Second, 1*time.Second, 100*time.Millisecond),
		answered("a", 11*time.Second, 2*time.Second, 100*time.Millisecond),
		answered("a", 12*time.Second, 3*time.Second, 100*time.Millisecond),
		answered("b", 18*time.Second, 4*time.Second, 200*time.Millisecond), // ends after the window
		{Class: "b", Status: feature.ClientAbort, At: 19 * time.Second, E2E: time.Second, Endpoint: 1, PromptTokens: 100},
	}
	s := r.Summary(r.Loaded, fleet.SLO{TTFT: 2 * time.Second})
	if s.Requests != 5 || s.Preemptions != 3 {
		t.Errorf("%d requests, %d preemptions", s.Requests, s.Preemptions)
	}
	near(t, "success", float64(s.Success), 0.8)
	near(t, "TTFT mean", float64(s.TTFT.Mean), 2.5)
	near(t, "TTFT p50", float64(s.TTFT.P50), 2.5)
	near(t, "TTFT p90", float64(s.TTFT.P90), 3.7)
	near(t, "TPOT mean", float64(s.TPOT.Mean), 0.125)
	near(t, "E2E p99", float64(s.E2E.P99), 4+0.97*2)
	// The cohort runs from 10 s to 24 s.
	near(t, "cohort requests", float64(s.Cohort.Requests), 4.0/14)
	near(t, "cohort input", float64(s.Cohort.Input), 400.0/14)
	near(t, "cohort output", float64(s.Cohort.Output), 44.0/14)
	near(t, "goodput", float64(s.Goodput), 2.0/14)
	near(t, "good share", float64(s.GoodShare), 0.4)
	// In the window three prompts were read and as many answers written.
	near(t, "window requests", float64(s.Window.Requests), 0.3)
	near(t, "window input", float64(s.Window.Input), 30)
	near(t, "window output", float64(s.Window.Output), 3.3)
	near(t, "hit rate", float64(s.HitRate), 0.4)
	// Class a takes 2, 3 and 4 times as long as alone, class b 6 times.
	near(t, "slowdown", float64(s.Slowdown), (3.0+6.0)/2)
	if len(s.Classes) != 2 || s.Classes[0].Name != "a" || s.Classes[0].Requests != 3 {
		t.Errorf("classes %+v", s.Classes)
	}
	near(t, "endpoint share", float64(s.EndpointShare[1]), 0.2)
	near(t, "busiest over mean", float64(s.MostToMean), 1.6)
	if all := r.Summary(r.All(), fleet.SLO{}); all.Requests != 5 {
		t.Errorf("%d requests after the warm-up", all.Requests)
	}
}

func TestSummaryOfNothing(t *testing.T) {
	r := &fleet.Result{Engines: make([]fleet.Metrics, 2)}
	b, err := json.Marshal(r.Summary(r.All(), fleet.SLO{}))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), `"success":null`) || !strings.Contains(string(b), `"herd":null`) {
		t.Errorf("unknown numbers are written as %s", b)
	}
}

func TestHerd(t *testing.T) {
	const engines, seconds, each = 4, 2000, 6
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		name     string
		endpoint func(second, i int) int
		want     float64
	}{
		{"by chance", func(int, int) int { return rng.IntN(engines) }, 1},
		{"all to one, another each second", func(s, _ int) int { return s % engines }, engines},
		{"in turn", func(s, i int) int { return (s*each + i) % engines }, engines * 4.0 / 30},
	} {
		r := &fleet.Result{Engines: make([]fleet.Metrics, engines)}
		for s := range seconds {
			for i := range each {
				r.Requests = append(r.Requests, fleet.Outcome{At: time.Duration(s)*time.Second + time.Duration(i)*time.Millisecond, Endpoint: c.endpoint(s, i)})
			}
		}
		if got := float64(r.Summary(r.All(), fleet.SLO{}).Herd); math.Abs(got-c.want) > 0.03 {
			t.Errorf("%s: herd index %.3f, want %.3f", c.name, got, c.want)
		}
	}
}
