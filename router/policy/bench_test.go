package policy_test

import (
	"fmt"
	"testing"

	"github.com/spillway-llm/spillway/router/policy"
)

// BenchmarkDecide is one decision over a busy pool, a quarter of it warm, with a
// forecast for every candidate: the most there can be to do.
func BenchmarkDecide(b *testing.B) {
	for _, name := range []string{policy.TokenLoad, policy.WeightedBlend, policy.Predicted} {
		for _, n := range []int{100, 1000} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				in := busy(name, n)
				out := decide(b, in)
				b.ReportAllocs()
				for b.Loop() {
					in.Seed++
					if err := policy.Decide(in, out); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkEncode is what recording one complete decision costs.
func BenchmarkEncode(b *testing.B) {
	in := busy(policy.Predicted, 16)
	dst := policy.Encode(nil, in)
	b.ReportAllocs()
	for b.Loop() {
		dst = policy.Encode(dst[:0], in)
	}
	b.ReportMetric(float64(len(dst)), "bytes")
}

// busy is a pool with traffic on it.
func busy(name string, n int) *policy.Input {
	in := input(name, idles(n)...)
	in.Settings.Exploration = 0.01
	for i := range in.Candidates {
		c := &in.Candidates[i]
		load := float64(i*7919%31) + 1
		if i%4 == 0 {
			c.CachedTokens = 1000
		}
		led := &c.Load.Ledger
		led.Requests, led.Decoding, led.ContextTokens = 2*load, load, 1000*load
		led.PrefillTokens, led.PrefillContext, led.WaitingContext = 500*load, 5e5*load, 600*load
		led.Remaining[7], led.RemainingContext[7] = 2*load, 1000*load
		expect(in, i, 0.05*load, 0.015)
	}
	return in
}
