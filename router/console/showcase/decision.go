package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/policy"
)

// decision makes the nth decision between so many endpoints of made-up load,
// through the policy itself.
func decision(chance *rand.Rand, n int, at time.Time, endpoints int, forecasts bool) (feature.Decision, error) {
	p, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		return feature.Decision{}, err
	}
	unknown := feature.Seconds(feature.Unknown)
	in := &policy.Input{
		Policy: policy.Predicted, Fallback: policy.CombinedLoad, Forecasts: forecasts, Settings: policy.Defaults(), Seed: chance.Uint64(),
		Request: policy.Request{PromptTokens: math.Floor(500 + 6000*chance.Float64()), ExpectedOutputTokens: 180, MaxOutputTokens: feature.Unknown, Completions: 1, SLOTTFT: unknown, SLOTPOT: unknown},
	}
	warm := chance.IntN(endpoints)
	for i := range endpoints {
		c := policy.Candidate{
			Endpoint: fmt.Sprintf("gpu-%03d.fleet-a", i), Class: "h100-tp2-vllm", HotTokens: 1000, SpeedSteps: 500, Coefficients: p.Coefficients,
			Load: feature.Load{Profile: feature.Profile{
				PeakPrefillThroughput: p.PeakPrefillThroughput, MaxBatchedTokens: float64(p.MaxBatchedTokens), MaxNumSeqs: float64(p.MaxNumSeqs),
				KVCapacityTokens: float64(p.KVCapacityTokens), SpeedFactor: 1 + 0.02*float64(i%5),
			}},
		}
		running := math.Floor(4 + 20*chance.Float64())
		c.Load.Ledger.Requests, c.Load.Ledger.Decoding, c.Load.Ledger.Remaining[9] = running+2, running, running
		c.Load.Ledger.PrefillTokens = math.Floor(4000 * chance.Float64())
		if i == warm && n%3 > 0 {
			c.CachedTokens = math.Floor(0.9 * in.Request.PromptTokens)
			if n%7 == 0 {
				c.Load.Ledger.PrefillTokens = 150_000 // saturated: the valve opens
			}
		}
		off := 0.15 * chance.NormFloat64()
		c.Residual.TTFT, c.Residual.TPOT = feature.LogQuantiles{P50: off, P90: off + 0.3}, feature.LogQuantiles{P50: off / 2, P90: off/2 + 0.15}
		in.Candidates = append(in.Candidates, c)
	}
	var out policy.Choice
	if err := policy.Decide(in, &out); err != nil {
		return feature.Decision{}, err
	}
	d := feature.Decision{
		DecidedAt: at.UTC().Truncate(time.Microsecond), Router: "router-0", Mode: "live", State: "live", Bundle: 42,
		Policy: out.Policy, PolicyVersion: policy.Version, Reason: out.Reason.String(), Complete: true, Seed: in.Seed,
		PromptTokens: in.Request.PromptTokens, ExpectedOutputTokens: 180, SLOTTFT: unknown, SLOTPOT: unknown, Explored: out.Explored,
		States: policy.Encode(nil, in), Chosen: in.Candidates[out.Index].Endpoint, Propensity: out.Probabilities[out.Index],
	}
	if !forecasts {
		d.State, d.Reason = "wrong", "wrong (p90 coverage 61 %); "+d.Reason
	}
	binary.BigEndian.PutUint64(d.ID[:], uint64(at.UnixMilli())<<16|7<<12)
	binary.BigEndian.PutUint64(d.ID[8:], 2<<62|uint64(n))
	for i, c := range in.Candidates {
		d.Candidates = append(d.Candidates, feature.Candidate{Endpoint: c.Endpoint, Class: c.Class, Corrected: out.Forecasts[i], Cost: out.Costs[i], Probability: out.Probabilities[i]})
	}
	return d, nil
}
