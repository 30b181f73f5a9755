package main

import (
	"cmp"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/trace"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

// noted forecasts from the prior and keeps the vectors it is asked about.
type noted struct {
	fleet.PriorForecaster
	vectors []feature.Vector
}

func (n *noted) Forecast(vectors []feature.Vector, out []feature.Forecast) {
	n.vectors = append(n.vectors, vectors...)
	n.PriorForecaster.Forecast(vectors, out)
}

// servedRows are what a router with one simulated engine would store, times
// counted from at: one request a session, so that vectors and outcomes are of
// the same order, with four times of rising load.
func servedRows(t *testing.T, p physics.Profile, requests int, at time.Time) (rows []feature.Row) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	items := make([]trace.Item, requests)
	var sent time.Duration
	for i := range items {
		rise := float64(i%(requests/4)) / float64(requests/4)
		sent += time.Duration((1.5 - 1.3*rise) * rng.ExpFloat64() * float64(time.Second))
		items[i] = trace.Item{At: sent, PromptTokens: 50 + rng.IntN(6000), OutputTokens: 20 + rng.IntN(400)}
	}
	var n noted
	result, err := fleet.Simulate(t.Context(), fleet.WorldConfig{
		Engines: []fleet.EngineSpec{{Profile: p}},
		Router:  fleet.RouterConfig{Policy: policy.Predicted, Forecaster: &n},
		Plan:    workload.FromTrace(items, 1),
		Seed:    1,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(n.vectors) != requests || len(result.Requests) != requests {
		t.Fatalf("%d vectors, %d outcomes of %d requests", len(n.vectors), len(result.Requests), requests)
	}
	slices.SortFunc(result.Requests, func(a, b fleet.Outcome) int { return cmp.Compare(a.Session, b.Session) })
	for i, o := range result.Requests {
		row := feature.Row{DecidedAt: at.Add(o.At), Vector: n.vectors[i], Outcome: feature.Outcome{
			Status: o.Status, TTFT: feature.SecondsOf(o.TTFT), TPOT: feature.SecondsOf(o.TPOT), E2E: feature.SecondsOf(o.E2E),
			OutputTokens: float64(o.OutputTokens), CachedTokens: float64(o.CachedTokens),
		}}
		if o.TPOT == 0 {
			row.Outcome.TPOT = feature.Seconds(feature.Unknown)
		}
		rows = append(rows, row)
	}
	return rows
}

// storeRows stores rows as those of an LLM on one endpoint of a class. What the
// rows do not say, their ids too, is drawn from rng.
func storeRows(t *testing.T, rng *rand.Rand, database, llm, class string, rows []feature.Row) {
	t.Helper()
	store, err := featurestore.Open(t.Context(), database, featurestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var decisions []feature.Decision
	var outcomes []feature.Outcome
	for _, r := range rows {
		d := featurestoretest.Decision(rng, r.DecidedAt, llm, 1)
		d.ChosenVector, d.ChosenClass = r.Vector, class
		d.Candidates[0].Vector, d.Candidates[0].Class = r.Vector, class
		o := r.Outcome
		o.Decision, o.DecidedAt, o.Attempt, o.Endpoint, o.CensoredAt = d.ID, d.DecidedAt, 1, d.Chosen, feature.Seconds(feature.Unknown)
		o.FinishedAt = d.DecidedAt.Add(time.Second)
		decisions, outcomes = append(decisions, d), append(outcomes, o)
	}
	if err := store.WriteDecisions(t.Context(), decisions); err != nil {
		t.Fatal(err)
	}
	if err := store.WriteOutcomes(t.Context(), outcomes); err != nil {
		t.Fatal(err)
	}
}

// From a simulated engine through the router's view and a real store to a
// profile that is near the engine's.
func TestFitOutcomes(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	must(t, database, "store", "migrate")
	truth, err := physics.Named(defaultProfile)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	const requests = 1600
	begin := time.Now().Add(-3 * time.Hour)
	storeRows(t, rng, database, "llm-a", "fast", servedRows(t, truth, requests, begin))
	args := []string{"fit-profile", "--format", "outcomes", "--window", "4h"}
	var result struct {
		Profile physics.Profile
		Rows    int
		HeldOut []struct {
			Group      string
			TTFT, TPOT struct{ Median float64 }
		} `json:"held_out"`
	}
	if err := json.Unmarshal([]byte(must(t, database, append(args, "--json")...)), &result); err != nil {
		t.Fatal(err)
	}
	p := result.Profile
	if result.Rows != requests || p.Name != "llm-a-on-fast" || p.KVCapacityTokens != truth.KVCapacityTokens ||
		p.MaxBatchedTokens != truth.MaxBatchedTokens || p.MaxNumSeqs != truth.MaxNumSeqs {
		t.Errorf("got %+v", result)
	}
	got, want := p.Coefficients, truth.Coefficients
	for _, x := range []struct {
		what      string
		got, want float64
		within    float64
	}{
		{"an empty step", got.A, want.A, 0.15},
		{"a decoding sequence", got.D, want.D, 0.25},
		{"prefill of 1,000 tokens", float64(got.Work(1000, 1000)), float64(want.Work(1000, 1000)), 0.15},
		{"prefill of 4,000 tokens", float64(got.Work(4000, 4000)), float64(want.Work(4000, 4000)), 0.1},
		{"prefill of 6,000 tokens", float64(got.Work(6000, 6000)), float64(want.Work(6000, 6000)), 0.15},
	} {
		if off := x.got/x.want - 1; !(math.Abs(off) <= x.within) {
			t.Errorf("%s takes %g s, %g s was true: %.0f %% off", x.what, x.got, x.want, 100*off)
		}
	}
	if q := result.HeldOut[0]; q.Group != "all" || q.TTFT.Median > 0.1 || q.TPOT.Median > 0.2 {
		t.Errorf("held out: %+v", result.HeldOut)
	}

	few := servedRows(t, truth, 20, begin)
	storeRows(t, rng, database, "llm-a", "slow", few)
	mistake{database: database, args: args, says: []string{"--class is needed", "fast, slow"}}.check(t)
	mistake{database: database, args: append(args, "--class", "none"), says: []string{`--class "none"`, "fast, slow"}}.check(t)
	mistake{database: database, args: append(args, "--class", "slow"), says: []string{"llm-a on slow", "want at least 50"}}.check(t)
	mistake{database: database, args: append(args[:3:3], "--window", "1m"), says: []string{"--window 1m0s", "no rows of llm-a"}}.check(t)
	if out := must(t, database, append(args, "--class", "fast", "--name", "mine")...); !strings.Contains(out, `"mine"`) || !strings.Contains(out, "rows not used for the fit") {
		t.Errorf("printed %s", out)
	}
	storeRows(t, rng, database, "llm-b", "fast", few)
	mistake{database: database, args: args, says: []string{"--llm is needed", "llm-a, llm-b"}}.check(t)
	mistake{database: database, args: append(args, "--llm", "llm-b"), says: []string{"llm-b on fast", "want at least 50"}}.check(t)
}
