package featurestore_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/feature"
)

// Each decision comes once, with its last attempt, whether it chose anything
// and whether it ended or not; with its candidates or without them.
func TestJoined(t *testing.T) {
	t.Parallel()
	store := featurestoretest.New(t)
	rng := rand.New(rand.NewPCG(7, 8))
	begin := time.Date(2026, 3, 1, 23, 59, 0, 0, time.UTC) // into the next day's partition
	var decisions []feature.Decision
	var outcomes []feature.Outcome
	want, whole := map[string][]featurestore.Joined{}, []featurestore.Joined{}
	for i := range 40 {
		llm := []string{"a", "b"}[i%2]
		d := featurestoretest.Decision(rng, begin.Add(time.Duration(i)*5*time.Second), llm, i%4)
		decisions = append(decisions, d)
		j := featurestore.Joined{Decision: d, Forecast: feature.NoForecast, Corrected: feature.NoForecast}
		for _, c := range d.Candidates {
			if c.Endpoint == d.Chosen && d.Chosen != "" {
				j.Forecast, j.Corrected = c.Forecast, c.Corrected
			}
		}
		o := featurestoretest.Outcome(rng, d)
		o.Attempt = 1
		switch i % 5 {
		case 0:
			u := feature.Seconds(feature.Unknown)
			o = feature.Outcome{Decision: d.ID, DecidedAt: d.DecidedAt, TTFT: u, TPOT: u, E2E: u, CensoredAt: u,
				OutputTokens: feature.Unknown, CachedTokens: feature.Unknown}
		case 1:
			outcomes = append(outcomes, o)
			o.Attempt, o.Endpoint = 2, "another"
			fallthrough
		default:
			outcomes = append(outcomes, o)
		}
		j.Outcome = o
		whole = append(whole, j)
		j.Decision.Candidates, j.Decision.States = nil, nil
		want[llm] = append(want[llm], j)
		want[""] = append(want[""], j)
	}
	if err := store.WriteDecisions(t.Context(), decisions); err != nil {
		t.Fatal(err)
	}
	if err := store.WriteOutcomes(t.Context(), outcomes); err != nil {
		t.Fatal(err)
	}
	for llm, want := range want {
		var got []featurestore.Joined
		for j, err := range store.Joined(t.Context(), llm, begin, begin.Add(time.Hour)) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, j)
		}
		if diff := cmp.Diff(want, got, featurestoretest.Bits); diff != "" {
			t.Errorf("of %q (-want +got):\n%s", llm, diff)
		}
	}
	var got []featurestore.Joined
	for j, err := range store.Whole(t.Context(), "", begin, begin.Add(time.Hour)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, j)
	}
	if diff := cmp.Diff(whole, got, featurestoretest.Bits); diff != "" {
		t.Errorf("with candidates (-want +got):\n%s", diff)
	}
	for j, err := range store.Joined(t.Context(), "", begin.Add(time.Hour), begin.Add(2*time.Hour)) {
		t.Fatalf("another hour has %v, %v", j, err)
	}
}
