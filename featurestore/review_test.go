package featurestore_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/feature"
)

// Ten decisions in three phases; forecasts decided those in live, with an
// error of 10 %, and the last one was retried elsewhere.
func TestReview(t *testing.T) {
	ctx := t.Context()
	store := featurestoretest.New(t)
	rng := rand.New(rand.NewPCG(1, 1))
	unknown := feature.Seconds(feature.Unknown)
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var decisions []feature.Decision
	var outcomes []feature.Outcome
	for i := range 10 {
		d := featurestoretest.Decision(rng, begin.Add(time.Duration(i)*time.Second), "qwen", 2)
		d.State, d.Policy, d.Reason = "live", "predicted", "because"
		if i < 3 || i > 7 {
			d.State, d.Policy = map[bool]string{true: "cold", false: "down"}[i < 3], "token-load"
		}
		for c := range d.Candidates {
			d.Candidates[c].Corrected = feature.Forecast{
				TTFT: feature.Quantiles{P50: 1.1, P90: 1.2}, TPOT: feature.Quantiles{P50: 0.018, P90: 0.019},
			}
		}
		o := featurestoretest.Outcome(rng, d)
		o.TTFT, o.TPOT, o.E2E = 1, 0.02, feature.Seconds(i)
		if i == 7 {
			o.Attempt, o.Endpoint = 2, "elsewhere"
			lost := o
			lost.Attempt, lost.Status, lost.TTFT, lost.TPOT, lost.E2E = 1, feature.Lost, unknown, unknown, unknown
			outcomes = append(outcomes, lost)
		}
		decisions, outcomes = append(decisions, d), append(outcomes, o)
	}
	if err := store.WriteDecisions(ctx, decisions); err != nil {
		t.Fatal(err)
	}
	if err := store.WriteOutcomes(ctx, outcomes); err != nil {
		t.Fatal(err)
	}
	from, to := begin, begin.Add(time.Minute)

	phases, err := store.Phases(ctx, from, to)
	if err != nil {
		t.Fatal(err)
	}
	second := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Second) }
	want := []featurestore.Phase{
		{State: "cold", Reason: "because", From: second(0), To: second(2), Requests: 3, TTFTP50: 1, TTFTP90: 1, TPOTP50: 0.02, E2EMean: 1},
		{State: "live", Reason: "because", From: second(3), To: second(7), Requests: 5, TTFTP50: 1, TTFTP90: 1, TPOTP50: 0.02, E2EMean: 5},
		{State: "down", Reason: "because", From: second(8), To: second(9), Requests: 2, TTFTP50: 1, TTFTP90: 1, TPOTP50: 0.02, E2EMean: 8.5},
	}
	if diff := cmp.Diff(want, phases, cmpopts.EquateApprox(0, 1e-9), cmpopts.EquateApproxTime(0)); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}

	a, err := store.Accuracy(ctx, from, to)
	if err != nil {
		t.Fatal(err)
	}
	wantAccuracy := featurestore.Accuracy{
		TTFTRows: 4, TTFTMedianAPE: 0.1, TTFTMAPE: 0.1, TTFTCoverage: 1,
		TPOTRows: 4, TPOTMedianAPE: 0.1, TPOTMAPE: 0.1, TPOTCoverage: 0,
	}
	if diff := cmp.Diff(wantAccuracy, a, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("accuracy (-want +got):\n%s", diff)
	}

	if n, err := store.ForecastsAfter(ctx, second(5), to); err != nil || n != 2 {
		t.Errorf("forecasts decided %d after the sixth, %v; want 2", n, err)
	}
	empty, err := store.Accuracy(ctx, to, to.Add(time.Hour))
	if err != nil || empty.TTFTRows != 0 || !math.IsNaN(empty.TTFTMAPE) {
		t.Errorf("no rows give %+v, %v", empty, err)
	}
}
