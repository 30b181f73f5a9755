package explain_test

import (
	"encoding/json"
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
