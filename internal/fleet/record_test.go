package fleet_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

// forecasting is a world that routes by its prior.
func forecasting(t *testing.T) fleet.WorldConfig {
	t.Helper()
	s, err := workload.Named("mixed")
	if err != nil {
		t.Fatal(err)
	}
	s.Duration = time.Minute
	c := fleet.WorldConfig{
		Engines: engines(standard(t), 4), Plan: s.Sessions(1, 3), Seed: 1,
		Router: fleet.RouterConfig{Policy: policy.Predicted, Forecaster: fleet.PriorForecaster{}},
	}
	for i := range c.Engines {
		c.Engines[i].Profile, c.Engines[i].Overhead = fleet.Perturb(standard(t), 1, i)
		c.Engines[i].Class = "same"
	}
	return c
}

// Every request has one row that says what its outcome says, and keeping rows
// changes nothing.
func TestRowsAreWhatHappened(t *testing.T) {
	c := forecasting(t)
	want := simulate(t, c)
	var rows []*feature.Row
	c.Rows = func(r *feature.Row) { rows = append(rows, r) }
	got := simulate(t, c)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("with rows (-without +with):\n%s", diff)
	}
	if len(rows) != len(want.Requests) || len(rows) == 0 {
		t.Fatalf("%d rows of %d requests", len(rows), len(want.Requests))
	}
	seen := map[feature.ID]bool{}
	for i, o := range want.Requests {
		r := rows[i]
		out := r.Outcome
		if seen[r.Decision] {
			t.Errorf("decision %v has two rows", r.Decision)
		}
		seen[r.Decision] = true
		if out.Status != o.Status || out.TTFT != feature.SecondsOf(o.TTFT) || out.E2E != feature.SecondsOf(o.E2E) || out.OutputTokens != float64(o.OutputTokens) {
			t.Errorf("row %d says %+v, the outcome %+v", i, out, o)
		}
		if v := r.Vector; v[feature.ColumnPromptTokens] != float32(o.PromptTokens) || v[feature.ColumnCachedTokens] != float32(o.MatchedTokens) || !(v[feature.ColumnPriorTTFT] > 0) {
			t.Errorf("row %d has vector %v of %+v", i, v, o)
		}
		if !r.Forecast.Known() || !r.Corrected.Known() || r.Class != "same" || out.FinishedAt.Sub(r.DecidedAt) != o.E2E {
			t.Errorf("row %d: %+v", i, r)
		}
	}
}

// A request that times out before its first token is known to have taken
// longer, and no more.
func TestRowsOfRequestsThatGaveUp(t *testing.T) {
	c := forecasting(t)
	c.Engines = c.Engines[:1]
	c.Plan.Timeout = 300 * time.Millisecond
	censored := 0
	c.Rows = func(r *feature.Row) {
		o := r.Outcome
		if known := !feature.IsUnknown(o.CensoredAt); known == !feature.IsUnknown(o.TTFT) || known && o.CensoredAt != 0.3 {
			t.Errorf("%+v", o)
		}
		if !feature.IsUnknown(o.CensoredAt) {
			censored++
		}
	}
	if simulate(t, c); censored == 0 {
		t.Error("nobody gave up")
	}
}

// A fork gives what the run itself gave for the endpoint that was chosen, and
// something else for the others.
func TestFork(t *testing.T) {
	c := forecasting(t)
	const request = 60
	var chosen *feature.Row
	c.Rows = func(r *feature.Row) {
		if r.Decision[14] == 0 && r.Decision[15] == request {
			chosen = r
		}
	}
	simulate(t, c)
	f, err := fleet.Fork(t.Context(), c, request)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Rows) != 4 || f.Rows[f.Chosen].Endpoint != chosen.Endpoint {
		t.Fatalf("%d rows, chosen %d, %s in the run", len(f.Rows), f.Chosen, chosen.Endpoint)
	}
	if got := f.Rows[f.Chosen]; !got.Vector.Equal(&chosen.Vector) || got.Outcome.E2E != chosen.Outcome.E2E || got.Corrected.TTFT != chosen.Corrected.TTFT {
		t.Errorf("chosen: %+v %+v, in the run %+v %+v", got.Outcome, got.Corrected, chosen.Outcome, chosen.Corrected)
	}
	times := map[feature.Seconds]bool{}
	for _, r := range f.Rows {
		if r.DecidedAt != chosen.DecidedAt || !(r.Outcome.E2E > 0) {
			t.Errorf("%+v", r)
		}
		times[r.Outcome.E2E] = true
	}
	if len(times) < 3 {
		t.Errorf("alternatives took %v", times)
	}
	if _, err := fleet.Fork(t.Context(), c, 1_000_000); err == nil {
		t.Error("a request that nobody sent was forked")
	}
}

// An endpoint that joins gets nothing before, and something after.
func TestAnEndpointJoins(t *testing.T) {
	c := forecasting(t)
	const joins = 5 * time.Second
	c.Engines[3].JoinsAt = joins
	c.Horizon = 3 * joins
	var first time.Duration
	c.Sink = func(o fleet.Outcome) {
		if o.Endpoint == 3 && (first == 0 || o.At < first) {
			first = o.At
		}
	}
	r, err := fleet.SimulateChecked(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if first < joins || r.Chosen[3] == 0 {
		t.Errorf("it joined at %v and was first given something at %v, %d in all", joins, first, r.Chosen[3])
	}
	c.Engines[2].JoinsAt = 2 * joins
	if _, err := fleet.Simulate(t.Context(), c); err == nil {
		t.Error("engines may join out of order")
	}
}
