package policy_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
)

// blendTwin scores one candidate by the four formulas, each by itself. All
// numbers are known.
func blendTwin(in *policy.Input, i int) float64 {
	c := in.Candidates[i]
	cold, eligible, before := true, 0, 0
	longest, shortest := 0.0, math.Inf(1)
	for _, other := range in.Candidates {
		cold = cold && other.CachedTokens == 0
		if other.Standing != policy.Good {
			continue
		}
		eligible++
		longest, shortest = max(longest, other.Load.Scraped.Waiting), min(shortest, other.Load.Scraped.Waiting)
		never := feature.IsUnknown(other.ColdAgo)
		if !feature.IsUnknown(c.ColdAgo) && (never || other.ColdAgo > c.ColdAgo) {
			before++
		}
	}
	prefix := c.CachedTokens / in.Request.PromptTokens
	queue := 1.0
	if longest > shortest {
		queue = (longest - c.Load.Scraped.Waiting) / (longest - shortest)
	}
	turn := 0.5
	if cold {
		turn = 1 - float64(before)/float64(max(eligible-1, 1))
	}
	return 3*prefix + 2*queue + 2*(1-c.Load.Scraped.KVUsed) + 2*turn
}

func TestWeightedBlendEqualsTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t, policy.WeightedBlend)
		best := false
		for i := range in.Candidates {
			if rapid.IntRange(0, 1).Draw(t, "all cold") == 0 {
				in.Candidates[i].CachedTokens = 0
			}
			best = best || in.Candidates[i].Standing == policy.Good
		}
		if !best {
			return
		}
		var out policy.Choice
		if err := policy.Decide(in, &out); err != nil {
			t.Fatal(err)
		}
		scores, greatest := map[int]float64{}, 0.0
		for i := range in.Candidates {
			if in.Candidates[i].Standing == policy.Good {
				scores[i] = blendTwin(in, i)
				greatest = max(greatest, scores[i])
			}
		}
		for i, score := range scores {
			if math.Abs(9-out.Costs[i]-score) > 1e-9 {
				t.Fatalf("candidate %d scores %v, want %v", i, 9-out.Costs[i], score)
			}
			if won, ought := out.Probabilities[i] > 0, score > greatest-1e-9; won && !ought {
				t.Fatalf("candidate %d wins with %v, the greatest is %v", i, score, greatest)
			}
		}
	})
}

func TestColdIsWhatNobodyHolds(t *testing.T) {
	in := input(policy.WeightedBlend, idles(2)...)
	got := []bool{policy.Cold(in)}
	in.Candidates[1].CachedTokens = math.NaN()
	got = append(got, policy.Cold(in))
	in.Candidates[0].CachedTokens = 16
	in.Candidates[0].Standing = policy.Barred // its prefix is no less there
	got = append(got, policy.Cold(in))
	if diff := cmp.Diff([]bool{true, true, false}, got); diff != "" {
		t.Errorf("cold (-want +got):\n%s", diff)
	}
}
