package explain_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/spillway-llm/spillway/internal/explain"
	"github.com/spillway-llm/spillway/internal/feature"
)

// A row that holds nothing but its choice is shown as far as it goes, and its
// JSON has null for what is not known.
func TestIncompleteRowIsShownAsFarAsItGoes(t *testing.T) {
	unknown := feature.Seconds(feature.Unknown)
	d := feature.Decision{LLM: "qwen", Chosen: "a", SLOTTFT: unknown, SLOTPOT: unknown, Rest: 3, Experiment: "split share=0.05 arms=fallback|predicted", Arm: "predicted",
		Candidates: []feature.Candidate{{Endpoint: "a", Probability: 1, Cost: 0.5, Corrected: feature.NoForecast}}}
	e := explain.Of(&d, []feature.Outcome{{Attempt: 1, Status: feature.OK, TTFT: unknown, TPOT: unknown, E2E: 2, OutputTokens: feature.Unknown, CachedTokens: feature.Unknown}})
	if !strings.HasPrefix(e.Replay, "not possible") || e.Valve != nil || len(e.Candidates) != 1 || e.Candidates[0].Terms != nil || e.Rest != 3 || len(e.Outcomes) != 1 {
		t.Errorf("explained %+v", e)
	}
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"slo_ttft":null`, `"cached_tokens":null`, `"candidates_not_stored":3`, `"experiment":"split share=0.05 arms=fallback|predicted"`, `"arm":"predicted"`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in %s", want, b)
		}
	}
}

// What a candidate's vector says is shown where the row holds no more of it.
func TestIncompleteRowIsReadFromItsVectors(t *testing.T) {
	unknown := feature.Seconds(feature.Unknown)
	vector := feature.Of(
		feature.Request{PromptTokens: 1000, CachedTokens: 896},
		feature.Load{Ledger: feature.Ledger{Requests: 3, PrefillTokens: 512}, Profile: feature.Profile{SpeedFactor: 2}},
		feature.Prior{TTFT: 0.5, TPOT: 0.25},
	)
	none := vector
	for i := range none {
		none[i] = float32(math.NaN())
	}
	d := feature.Decision{LLM: "qwen", Propensity: 0.25, SLOTTFT: 0.1, SLOTPOT: unknown, Schema: feature.Schema,
		Candidates: []feature.Candidate{
			{Endpoint: "a", Corrected: feature.NoForecast, Vector: vector}, {Endpoint: "b", Corrected: feature.NoForecast, Vector: none},
		}}
	e := explain.Of(&d, nil)
	a, b := e.Candidates[0], e.Candidates[1]
	if a.Cached != 896 || a.InFlight != 3 || a.PrefillTokens != 512 || a.Speed != 2 || a.PriorTTFT != 0.5 || a.PriorTPOT != 0.25 || e.ShedChance != 0.25 {
		t.Errorf("explained %+v, shed with probability %v", a, e.ShedChance)
	}
	if len(a.Vector) != feature.Width || a.Vector["prompt_tokens"] != 1000 || !feature.IsUnknown(b.Cached) || b.Vector != nil {
		t.Errorf("explained %+v and %+v", a, b)
	}
	d.Schema[0]++ // the columns mean something else
	if a = explain.Of(&d, nil).Candidates[0]; !feature.IsUnknown(a.Cached) || a.Vector != nil {
		t.Errorf("read by another schema: %+v", a)
	}
}
