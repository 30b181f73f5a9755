package policy_test

import (
	"math"
	"testing"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
)

var matchedNames = []string{policy.TokenLoad, policy.ActiveRequest, policy.CombinedLoad}

func TestSticky(t *testing.T) {
	for _, c := range []struct {
		name           string
		prompt, cached float64
		throughput     float64
		sticky         bool
	}{
		{name: "nothing cached", prompt: 1000, throughput: 15_928},
		{name: "nothing asked, nothing cached", throughput: 15_928},
		{name: "just under the share", prompt: 1000, cached: 799, throughput: 15_928},
		{name: "the share", prompt: 1000, cached: 800, throughput: 15_928, sticky: true},
		{name: "all of it", prompt: 1000, cached: 1000, throughput: 15_928, sticky: true},
		{name: "just under 1 s", prompt: 100_000, cached: 15_927, throughput: 15_928},
		{name: "1 s saved", prompt: 100_000, cached: 15_928, throughput: 15_928, sticky: true},
		{name: "1 s saved by a slow engine", prompt: 100_000, cached: 4000, throughput: 4000, sticky: true},
		{name: "less saved by a fast one", prompt: 100_000, cached: 15_928, throughput: 40_000},
		{name: "1 s by the default", prompt: 100_000, cached: 15_928, throughput: feature.Unknown, sticky: true},
		{name: "cached unknown", prompt: 1000, cached: feature.Unknown, throughput: 15_928},
	} {
		in := input(policy.TokenLoad, idle("a"))
		in.Request.PromptTokens = c.prompt
		in.Candidates[0].CachedTokens = c.cached
		in.Candidates[0].Load.Profile.PeakPrefillThroughput = c.throughput
		if got := policy.Sticky(in, 0); got != c.sticky {
			t.Errorf("%s: sticky is %v", c.name, got)
		}
	}
}

// hot is a warm endpoint with so many uncached tokens in flight beside a cold
// one with so many. The warm one is busier by every policy's measure.
func hot(name string, warm, cold float64) *policy.Input {
	in := input(name, idle("cold"), idle("warm"))
	in.Candidates[0].Load.Ledger.PrefillTokens = cold
	in.Candidates[1].Load.Ledger.PrefillTokens = warm
	in.Candidates[1].Load.Ledger.Requests = 30
	in.Candidates[1].CachedTokens = 1000
	return in
}

func TestValve(t *testing.T) {
	const limit = 286_704 // 18 s at 15,928 tokens/s
	unset := feature.Unknown
	for _, c := range []struct {
		name       string
		warm, cold float64
		slo        float64
		want       string
		code       policy.Code
	}{
		{"idle", 0, 0, unset, "warm", policy.Warm},
		{"at the penalty", limit, 0, unset, "warm", policy.Warm},
		{"above it", limit + 1, 0, unset, "cold", policy.Spilled},
		{"a busy other closes it", limit + 1, 10_000, unset, "warm", policy.Warm},
		{"an SLO shrinks it", 15_928*2 + 1, 0, 2, "cold", policy.Spilled},
		{"to the SLO itself", 15_928 * 2, 0, 2, "warm", policy.Warm},
		{"a long SLO does not widen it", limit + 1, 0, 60, "cold", policy.Spilled},
		{"an SLO of 0 is none", 15_928, 0, 0, "warm", policy.Warm},
	} {
		for _, name := range matchedNames {
			in := hot(name, c.warm, c.cold)
			in.Request.SLOTTFT = feature.Seconds(c.slo)
			out := decide(t, in)
			if got := in.Candidates[out.Index].Endpoint; got != c.want || out.Reason.Code != c.code {
				t.Errorf("%s, %s: chose %s because %q", name, c.name, got, out.Reason)
			}
		}
	}
}

func TestNoOtherEndpointStays(t *testing.T) {
	for _, name := range matchedNames {
		in := hot(name, 1e9, 0)
		in.Candidates[0].Standing = policy.Dated // not comparable, so no other
		out := decide(t, in)
		if in.Candidates[out.Index].Endpoint != "warm" || out.Reason.Code != policy.AllWarm {
			t.Errorf("%s: left the only endpoint because %q", name, out.Reason)
		}
	}
}

// The best of the warm ones counts, not each by itself.
func TestValveLooksAtTheBestWarmEndpoint(t *testing.T) {
	for _, name := range matchedNames {
		in := hot(name, 1e6, 0)
		free := idle("warm2")
		free.CachedTokens = 900
		free.Load.Ledger.Requests = 5
		in.Candidates = append(in.Candidates, free)
		if got := chosen(t, in); got != "warm2" {
			t.Errorf("%s: chose %s", name, got)
		}
	}
}

// A missing throughput is never compared with a real one: the default stands
// in for both.
func TestValveImputesBothSidesAlike(t *testing.T) {
	const fast = 159_280 // ten times the default
	for _, c := range []struct {
		name       string
		warm, cold float64 // throughput
		tokens     float64 // in flight at the warm endpoint
		want       string
	}{
		{"both known: 5 s", fast, fast, 5 * fast, "warm"},
		{"cold unknown: 50 s at the default", fast, feature.Unknown, 5 * fast, "cold"},
		{"warm unknown", feature.Unknown, fast, 5 * fast, "cold"},
		{"both unknown", feature.Unknown, feature.Unknown, 5 * fast, "cold"},
		{"cold unknown, little in flight", fast, feature.Unknown, fast, "warm"},
		{"cold 0 is unknown too", fast, 0, 5 * fast, "cold"},
	} {
		for _, name := range matchedNames {
			in := hot(name, c.tokens, 0)
			in.Candidates[0].Load.Profile.PeakPrefillThroughput = c.cold
			in.Candidates[1].Load.Profile.PeakPrefillThroughput = c.warm
			if got := chosen(t, in); got != c.want {
				t.Errorf("%s, %s: chose %s", name, c.name, got)
			}
		}
	}
	// The same tokens on both sides never open the valve, whoever is unknown.
	for _, warm := range []float64{fast, feature.Unknown, 100} {
		in := hot(policy.TokenLoad, 1e6, 1e6)
		in.Candidates[0].Load.Profile.PeakPrefillThroughput = feature.Unknown
		in.Candidates[1].Load.Profile.PeakPrefillThroughput = warm
		if got := chosen(t, in); got != "warm" {
			t.Errorf("throughput %v beside an unknown one: chose %s", warm, got)
		}
	}
}

// An endpoint whose tokens in flight are unknown takes no part in the valve.
func TestValveSkipsUnknownLoad(t *testing.T) {
	in := hot(policy.TokenLoad, 1e6, 0)
	blind := idle("zz")
	blind.CachedTokens = 1000
	blind.Load.Ledger.PrefillTokens = math.NaN()
	in.Candidates = append(in.Candidates, blind)
	if got := chosen(t, in); got != "cold" {
		t.Errorf("chose %s", got)
	}
}

func TestScores(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy string
		cached float64
		want   float64
	}{
		{"in flight and own", policy.TokenLoad, 0, 5000 + 1000},
		{"own uncached only", policy.TokenLoad, 400, 5000 + 600},
		{"a block at least", policy.TokenLoad, 1000, 5000 + 16},
		{"requests", policy.ActiveRequest, 400, 3},
		{"a request counts 8,000 tokens", policy.CombinedLoad, 400, 5000 + 600 + 3*8000},
	} {
		in := input(c.policy, idle("a"))
		in.Candidates[0].CachedTokens = c.cached
		in.Candidates[0].Load.Ledger.Requests = 3
		in.Candidates[0].Load.Ledger.PrefillTokens = 5000
		if out := decide(t, in); out.Costs[0] != c.want || out.Reason.Cost != c.want {
			t.Errorf("%s, %s: cost %v and %v, want %v", c.policy, c.name, out.Costs[0], out.Reason.Cost, c.want)
		}
	}
}

// One hot endpoint opens the valve for its own prefix only; others keep theirs.
func TestOneHotEndpointLeavesOthersTheirAffinity(t *testing.T) {
	for _, name := range matchedNames {
		in := hot(name, 1e7, 0)
		in.Candidates[1].CachedTokens = 0 // somebody else's hot spot
		warm := idle("zz")
		warm.CachedTokens = 1000
		warm.Load.Ledger.Requests = 2
		in.Candidates = append(in.Candidates, warm)
		if got := chosen(t, in); got != "zz" {
			t.Errorf("%s: chose %s", name, got)
		}
	}
}
