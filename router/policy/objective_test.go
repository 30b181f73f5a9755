package policy_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
)

// The probability of shedding has no cliff: it begins at 0 where the best p90
// meets its objective and rises evenly to 1.
func TestSheddingRisesWithTheExcess(t *testing.T) {
	was := 0.0
	for excess := -0.1; excess < 0.7; excess += 0.01 {
		in := times(2, 1, 3) // the best p90 is 1.2 s
		in.Request.Priority, in.Request.SLOTTFT = -1, feature.Seconds(1.2/(1+excess))
		out := decide(t, in)
		if want := min(1, max(0, excess/0.5)); math.Abs(out.ShedProbability-want) > 1e-9 {
			t.Errorf("%.0f %% over its objective it is shed with probability %v, want %v", 100*excess, out.ShedProbability, want)
		}
		if out.ShedProbability-was > 0.021 || out.ShedProbability < was {
			t.Errorf("the probability goes from %v to %v", was, out.ShedProbability)
		}
		if want := max(0, 1.2-float64(in.Request.SLOTTFT)); out.ShedProbability > 0 && math.Abs(float64(out.RetryAfter)-want) > 1e-9 {
			t.Errorf("retry after %v s, want %v s", out.RetryAfter, want)
		}
		was = out.ShedProbability
	}
}

func TestWhoIsNeverShed(t *testing.T) {
	for name, change := range map[string]func(*policy.Input){
		"of priority 0":       func(in *policy.Input) { in.Request.Priority = 0 },
		"of priority 1":       func(in *policy.Input) { in.Request.Priority = 1 },
		"without objectives":  func(in *policy.Input) { in.Request.SLOTTFT = feature.Seconds(feature.Unknown) },
		"without forecasts":   func(in *policy.Input) { in.Forecasts = false },
		"by another policy":   func(in *policy.Input) { in.Policy = policy.CombinedLoad },
		"of unknown p90":      func(in *policy.Input) { forgetP90(in, 0); forgetP90(in, 1) },
		"where one meets it":  func(in *policy.Input) { expect(in, 1, 0.005, 0.02) },
		"of unknown priority": func(in *policy.Input) { in.Request.Priority = math.NaN() },
	} {
		in := times(1, 2)
		in.Request.Priority, in.Request.SLOTTFT = -1, 0.01
		change(in)
		for in.Seed = range 20 {
			if out := decide(t, in); out.Shed || out.ShedProbability != 0 {
				t.Errorf("a request %s is shed with probability %v", name, out.ShedProbability)
			}
		}
	}
}

func forgetP90(in *policy.Input, i int) { in.Candidates[i].Residual.TTFT.P90 = math.NaN() }

// A canary's probabilities are those of both policies, weighed by its coin.
func TestCanaryMixesBoth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{policy.Predicted, policy.PredictorBlend}).Draw(t, "policy")
		in := drawInput(t, name)
		in.Forecasts, in.Canary = true, rapid.SampledFrom([]float64{0.01, 0.05, 0.5, 0.99}).Draw(t, "share")
		both := decide(t, in)
		alone, fallback := clone(in), clone(in)
		alone.Canary, fallback.Policy = 0, in.Fallback
		a, b := decide(t, alone), decide(t, fallback)
		if a.Policy != name { // no forecast: nothing to draw
			if diff := cmp.Diff(b.Probabilities, both.Probabilities, bitEqual); diff != "" || both.Held {
				t.Fatalf("held %v, probabilities (-fallback +canary):\n%s", both.Held, diff)
			}
			return
		}
		want := make([]float64, len(in.Candidates))
		for i := range want {
			want[i] = in.Canary*a.Probabilities[i] + (1-in.Canary)*b.Probabilities[i]
		}
		if diff := cmp.Diff(want, both.Probabilities, about); diff != "" {
			t.Fatalf("probabilities (-weighed +got):\n%s", diff)
		}
		if p := in.Canary * a.ShedProbability; math.Abs(p-both.ShedProbability) > 1e-12 {
			t.Fatalf("shed with probability %v, want %v", both.ShedProbability, p)
		}
		if both.Held != (both.Policy == in.Fallback) {
			t.Fatalf("held %v and decided by %s", both.Held, both.Policy)
		}
	})
}

// The published draw hardly tells 100 ms from 800 ms where one endpoint is at
// 30 s: what routing by least cost is measured against.
func TestPredictorBlendAsPublished(t *testing.T) {
	in := times(0.1, 0.2, 0.4, 0.8, 30)
	in.Policy = policy.PredictorBlend
	got := decide(t, in).Probabilities
	for i, want := range []float64{0.253, 0.251, 0.248, 0.246, 0.003} {
		if math.Abs(got[i]-want) > 0.0025 {
			t.Errorf("candidate %d has probability %.4f, published is %.3f", i, got[i], want)
		}
	}
}
