package policy_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/policy"
)

// class is the engine that the endpoints of these tests run.
var class = func() physics.Profile {
	p, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		panic(err)
	}
	return p
}()

// idle is a healthy endpoint with nothing in flight, nothing cached and no
// forecast.
func idle(name string) policy.Candidate {
	return policy.Candidate{
		Endpoint:     name,
		Class:        class.Name,
		Coefficients: class.Coefficients,
		Residual:     feature.NoResidual,
		Load: feature.Load{Profile: feature.Profile{
			PeakPrefillThroughput: class.PeakPrefillThroughput,
			MaxBatchedTokens:      float64(class.MaxBatchedTokens),
			MaxNumSeqs:            float64(class.MaxNumSeqs),
			KVCapacityTokens:      float64(class.KVCapacityTokens),
			SpeedFactor:           1,
		}},
	}
}

// idles are n of them, ordered by name.
func idles(n int) []policy.Candidate {
	candidates := make([]policy.Candidate, n)
	for i := range candidates {
		candidates[i] = idle(fmt.Sprintf("e%04d", i))
	}
	return candidates
}

// input asks the named policy for 1,000 prompt tokens and 100 output tokens.
// Exploration and impatience are off: tests of them turn them on.
func input(name string, candidates ...policy.Candidate) *policy.Input {
	settings := policy.Defaults()
	settings.Exploration, settings.ExplorationHarm, settings.Impatience = 0, 1, 0
	return &policy.Input{
		Policy:    name,
		Fallback:  policy.CombinedLoad,
		Forecasts: true,
		Settings:  settings,
		Request: policy.Request{
			PromptTokens:         1000,
			ExpectedOutputTokens: 100,
			MaxOutputTokens:      feature.Unknown,
			Completions:          1,
			SLOTTFT:              feature.Seconds(feature.Unknown),
			SLOTPOT:              feature.Seconds(feature.Unknown),
		},
		Candidates: candidates,
	}
}

// expect gives candidate i the residual that turns its prior into this TTFT
// and TPOT; the p90 lies 20 % above.
func expect(in *policy.Input, i int, ttft, tpot float64) {
	c := &in.Candidates[i]
	prior := c.Prior(&in.Request)
	quantiles := func(want float64, prior feature.Seconds) feature.LogQuantiles {
		p50 := math.Log(want / float64(prior))
		return feature.LogQuantiles{P50: p50, P90: p50 + math.Log(1.2)}
	}
	c.Residual = feature.Residual{TTFT: quantiles(ttft, prior.TTFT), TPOT: quantiles(tpot, prior.TPOT)}
}

// expectAll gives every candidate the same forecast.
func expectAll(in *policy.Input, ttft, tpot float64) {
	for i := range in.Candidates {
		expect(in, i, ttft, tpot)
	}
}

func decide(t rapid.TB, in *policy.Input) *policy.Choice {
	t.Helper()
	out := &policy.Choice{}
	if err := policy.Decide(in, out); err != nil {
		t.Fatalf("Decide: %v", err)
	}
	return out
}

// chosen is the endpoint that in's policy takes.
func chosen(t testing.TB, in *policy.Input) string {
	t.Helper()
	out := decide(t, in)
	if out.Index < 0 {
		return ""
	}
	return in.Candidates[out.Index].Endpoint
}

func clone(in *policy.Input) *policy.Input {
	c := *in
	c.Candidates = slices.Clone(in.Candidates)
	return &c
}

// numbers visits every floating-point number below v, which must be
// addressable, so that a number added to Input can't escape the tests.
func numbers(v reflect.Value, visit func(path string, number reflect.Value)) {
	walk("", v, visit)
}

func walk(path string, v reflect.Value, visit func(string, reflect.Value)) {
	switch v.Kind() {
	case reflect.Float64:
		visit(path, v)
	case reflect.Struct:
		for i := range v.NumField() {
			walk(path+"."+v.Type().Field(i).Name, v.Field(i), visit)
		}
	case reflect.Array, reflect.Slice:
		for i := range v.Len() {
			walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i), visit)
		}
	}
}

// bitEqual compares numbers bit for bit, so that NaN equals itself and -0 does
// not equal 0.
var bitEqual = cmp.Options{
	cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
	cmp.Comparer(func(a, b feature.Seconds) bool {
		return math.Float64bits(float64(a)) == math.Float64bits(float64(b))
	}),
	cmpopts.EquateEmpty(),
	cmpopts.IgnoreUnexported(policy.Choice{}),
}

// about compares numbers to within 1e-9.
var about = cmp.Options{
	cmpopts.EquateEmpty(),
	cmp.Comparer(near[float64]),
	cmp.Comparer(near[feature.Seconds]),
}

func near[T ~float64](a, b T) bool {
	return math.Abs(float64(a-b)) <= 1e-9 || feature.IsUnknown(a) && feature.IsUnknown(b)
}

// drawInput draws a plausible decision: few distinct loads, so that ties
// happen, and any of the standings, forecasts and cached prefixes.
func drawInput(t *rapid.T, name string) *policy.Input {
	in := input(name)
	in.Fallback = rapid.SampledFrom([]string{policy.TokenLoad, policy.ActiveRequest, policy.CombinedLoad}).Draw(t, "fallback")
	in.Forecasts = rapid.IntRange(0, 4).Draw(t, "forecasts") > 0
	in.Seed = rapid.Uint64().Draw(t, "seed")
	in.Turn = rapid.Uint64Range(0, 100).Draw(t, "turn")
	in.Settings.Exploration = rapid.SampledFrom([]float64{0, 0.01, 0.3}).Draw(t, "exploration")
	in.Request.PromptTokens = rapid.SampledFrom([]float64{10, 1000, 40_000}).Draw(t, "prompt")
	in.Request.SLOTTFT = feature.Seconds(rapid.SampledFrom([]float64{feature.Unknown, 0, 0.2, 30}).Draw(t, "slo"))
	in.Request.SLOTPOT = feature.Seconds(rapid.SampledFrom([]float64{feature.Unknown, feature.Unknown, 0.02}).Draw(t, "slo of TPOT"))
	in.Request.Priority = rapid.SampledFrom([]float64{0, 0, -1, 1}).Draw(t, "priority")
	in.Canary = rapid.SampledFrom([]float64{0, 0, 0.05, 1}).Draw(t, "canary")
	in.Candidates = idles(rapid.IntRange(0, 12).Draw(t, "candidates"))
	for i := range in.Candidates {
		c := &in.Candidates[i]
		c.Standing = rapid.SampledFrom([]policy.Standing{policy.Good, policy.Good, policy.Good, policy.Dated, policy.Doubtful, policy.Barred}).Draw(t, "standing")
		c.CachedTokens = in.Request.PromptTokens * rapid.SampledFrom([]float64{0, 0, 0.5, 1}).Draw(t, "cached")
		c.ColdAgo = feature.Seconds(rapid.SampledFrom([]float64{feature.Unknown, 0, 1, 60}).Draw(t, "cold"))
		c.Load.Scraped.Waiting = float64(rapid.IntRange(0, 2).Draw(t, "waiting"))
		c.Load.Scraped.KVUsed = rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "kv")
		c.Load.Ledger.Requests = float64(rapid.IntRange(0, 3).Draw(t, "requests"))
		c.Load.Ledger.Remaining[rapid.IntRange(0, feature.RemainingBuckets-1).Draw(t, "bucket")] = c.Load.Ledger.Requests
		c.Load.Profile.SpeedFactor = rapid.SampledFrom([]float64{1, 1, 2.5}).Draw(t, "speed")
		c.SpeedSteps = rapid.SampledFrom([]float64{0, 1000}).Draw(t, "steps")
		c.HotTokens = rapid.SampledFrom([]float64{0, 250_000}).Draw(t, "hot")
		c.Load.Ledger.PrefillTokens = rapid.SampledFrom([]float64{0, 8000, 300_000}).Draw(t, "prefill")
		if rapid.IntRange(0, 3).Draw(t, "known") > 0 {
			expect(in, i,
				rapid.SampledFrom([]float64{0.1, 0.2, 3, 20}).Draw(t, "ttft"),
				rapid.SampledFrom([]float64{0.015, 0.03}).Draw(t, "tpot"))
		}
	}
	return in
}

// forEvery runs one test for every policy there is.
func forEvery(t *testing.T, test func(t *testing.T, name string)) {
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) { test(t, name) })
	}
}
