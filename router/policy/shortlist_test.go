package policy_test

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/router/policy"
)

// The short list is the k cheapest by standing and prior, and whoever is warm.
func TestShortlist(t *testing.T) {
	var s policy.Shortlist
	rapid.Check(t, func(rt *rapid.T) {
		n, k := rapid.IntRange(0, 30).Draw(rt, "n"), rapid.IntRange(-1, 20).Draw(rt, "k")
		in := policy.Input{Settings: policy.Defaults(), Request: policy.Request{PromptTokens: 1000, ExpectedOutputTokens: 100, Completions: 1}}
		costs := make([]float64, n)
		var want []int
		for i := range n {
			c := policy.Candidate{Standing: policy.Standing(rapid.IntRange(0, 3).Draw(rt, "standing"))}
			c.Coefficients.A = 0.01
			c.Coefficients.B = 1e-6 * float64(rapid.IntRange(1, 50).Draw(rt, "b"))
			c.CachedTokens = rapid.SampledFrom([]float64{0, 0, 100, 900}).Draw(rt, "cached")
			c.Load.Profile.PeakPrefillThroughput = 15_928
			in.Candidates = append(in.Candidates, c)
			p := c.Prior(&in.Request)
			costs[i] = float64(p.TTFT) + 100*float64(p.TPOT) + 1e6*float64(c.Standing)
			want = append(want, i)
		}
		if k > 0 && n > k {
			slices.SortStableFunc(want, func(a, b int) int { return cmp.Compare(costs[a], costs[b]) })
			for i := k; i < len(want); {
				if policy.Sticky(&in, want[i]) {
					i++
				} else {
					want = slices.Delete(want, i, i+1)
				}
			}
			slices.Sort(want)
		}
		if got := s.Choose(&in, k); !slices.Equal(got, want) {
			rt.Fatal(gocmp.Diff(want, got))
		}
	})
}
