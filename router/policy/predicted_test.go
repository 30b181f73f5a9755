package policy_test

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
)

// times asks predicted to choose among endpoints with these forecast TTFTs and
// a TPOT of 20 ms each. NaN is an endpoint without a forecast.
func times(ttft ...float64) *policy.Input {
	in := input(policy.Predicted, idles(len(ttft))...)
	for i, seconds := range ttft {
		if !math.IsNaN(seconds) {
			expect(in, i, seconds, 0.02)
		}
	}
	return in
}

func TestPredictedCost(t *testing.T) {
	in := times(0.5, 0.3)
	expect(in, 1, 0.3, 0.03) // 0.5 + 100 x 0.02 = 2.5 s against 0.3 + 100 x 0.03 = 3.3 s
	out := decide(t, in)
	if out.Index != 0 || out.Policy != policy.Predicted || out.Explored {
		t.Errorf("chose %d by %s, explored %v", out.Index, out.Policy, out.Explored)
	}
	if diff := cmp.Diff([]float64{2.5, 3.3}, out.Costs, about); diff != "" {
		t.Errorf("costs (-want +got):\n%s", diff)
	}
	if out.Reason.Cost != out.Costs[0] {
		t.Errorf("reason says cost %v", out.Reason.Cost)
	}
	in.Request.ExpectedOutputTokens = 10 // now 0.7 s against 0.6 s
	expect(in, 0, 0.5, 0.02)
	expect(in, 1, 0.3, 0.03)
	if got := chosen(t, in); got != "e0001" {
		t.Errorf("a short answer went to %s", got)
	}
}

func TestNeverBestByIgnorance(t *testing.T) {
	unknown := feature.Unknown
	in := times(unknown, 500, unknown)
	in.Settings.Exploration = 0.5
	for in.Seed = range 100 {
		out := decide(t, in)
		if out.Index != 1 || out.Probabilities[1] != 1 {
			t.Fatalf("chose %d with probabilities %v", out.Index, out.Probabilities)
		}
		if !math.IsNaN(out.Costs[0]) || out.Forecasts[0].Known() {
			t.Fatalf("an endpoint without a forecast costs %v", out.Costs[0])
		}
	}
	// Not even when it alone is warm.
	in.Candidates[0].CachedTokens = 1000
	if got := chosen(t, in); got != "e0001" {
		t.Errorf("chose %s", got)
	}
	// Half a forecast is none.
	in = times(500, 0.1)
	in.Candidates[1].Residual.TPOT.P50 = unknown
	if got := chosen(t, in); got != "e0000" {
		t.Errorf("half a forecast won: %s", got)
	}
}

func TestFallbackDecidesWithoutForecasts(t *testing.T) {
	for _, fallback := range matchedNames {
		for name, in := range map[string]*policy.Input{
			"none made":        times(feature.Unknown, feature.Unknown),
			"may not be used":  times(0.1, 10),
			"prior is unknown": times(0.1, 10),
		} {
			in.Fallback = fallback
			in.Candidates[0].Load.Ledger.Requests = 5
			in.Candidates[0].Load.Ledger.PrefillTokens = 5000
			switch name {
			case "may not be used":
				in.Forecasts = false
			case "prior is unknown":
				in.Request.ExpectedOutputTokens = 0
				in.Candidates[0].Coefficients.A = math.NaN()
				in.Candidates[1].Coefficients.A = math.NaN()
			}
			out := decide(t, in)
			if out.Index != 1 || out.Policy != fallback {
				t.Errorf("%s, forecasts %s: chose %d by %s", fallback, name, out.Index, out.Policy)
			}
			direct := clone(in)
			direct.Policy = fallback
			if diff := cmp.Diff(decide(t, direct), out, bitEqual); diff != "" {
				t.Errorf("%s, forecasts %s (-configured +fallback):\n%s", fallback, name, diff)
			}
		}
	}
	// A forecast of an endpoint that may not serve is no forecast.
	in := times(feature.Unknown, 0.1)
	in.Candidates[1].Standing = policy.Doubtful
	if out := decide(t, in); out.Index != 0 || out.Policy != policy.CombinedLoad {
		t.Errorf("chose %d by %s", out.Index, out.Policy)
	}
}

func TestPredictedValve(t *testing.T) {
	for _, c := range []struct {
		name       string
		warm, cold float64
		slo        float64
		want       string
		code       policy.Code
	}{
		{"under 5 s", 5.0, 0.1, feature.Unknown, "warm", policy.Warm},
		{"over 5 s", 5.2, 0.1, feature.Unknown, "cold", policy.Spilled},
		{"an SLO that nobody meets shrinks it", 5, 3.5, 1, "cold", policy.Spilled},
		{"and not below the SLO", 4.4, 3.5, 1, "warm", policy.Warm},
		{"an SLO that only the cold one meets", 1.2, 0.1, 1, "cold", policy.Missing}, // the p90 is 1.44 s
		{"an SLO that both meet", 1.0, 0.1, 1.3, "warm", policy.Warm},
		{"an SLO that only the warm one meets", 0.5, 3, 1, "warm", policy.AllWarm},
		{"a long SLO does not widen it", 5.2, 0.1, 60, "cold", policy.Spilled},
		{"an SLO of 0 is none", 4.9, 0.1, 0, "warm", policy.Warm},
	} {
		in := hot(policy.Predicted, 0, 0)
		expect(in, 0, c.cold, 0.02)
		expect(in, 1, c.warm, 0.02)
		in.Request.SLOTTFT = feature.Seconds(c.slo)
		out := decide(t, in)
		if got := in.Candidates[out.Index].Endpoint; got != c.want || out.Reason.Code != c.code {
			t.Errorf("%s: chose %s because %q", c.name, got, out.Reason)
		}
	}
	// When it opens the warm endpoint may still be cheapest in total.
	in := hot(policy.Predicted, 0, 0)
	expect(in, 0, 0.1, 0.2)
	expect(in, 1, 6, 0.02)
	if out := decide(t, in); out.Index != 1 || out.Reason.Code != policy.Spilled {
		t.Errorf("chose %d because %q", out.Index, out.Reason)
	}
	// A cold endpoint without a forecast is no reason to leave.
	in = hot(policy.Predicted, 0, 0)
	expect(in, 1, 100, 0.02)
	if out := decide(t, in); out.Index != 1 || out.Reason.Code != policy.AllWarm {
		t.Errorf("chose %d because %q", out.Index, out.Reason)
	}
}

func TestCorrectionIsAdded(t *testing.T) {
	in := times(1, 1)
	in.Candidates[0].Correction = feature.Residual{
		TTFT: feature.LogQuantiles{P50: math.Log(2), P90: math.Log(3)},
		TPOT: feature.LogQuantiles{P50: math.Log(0.5), P90: math.Log(0.5)},
	}
	got := decide(t, in).Forecasts[0]
	want := feature.Forecast{
		TTFT:     feature.Quantiles{P50: 2, P90: 3.6},
		TPOT:     feature.Quantiles{P50: 0.01, P90: 0.012},
		Residual: in.Candidates[0].Residual, // as the bundle gave it
		Support:  feature.Unknown,
	}
	if diff := cmp.Diff(want, got, about); diff != "" {
		t.Errorf("corrected forecast (-want +got):\n%s", diff)
	}
	in.Candidates[0].Correction.TTFT.P90 = -10
	if f := decide(t, in).Forecasts[0]; f.TTFT.P90 != f.TTFT.P50 {
		t.Errorf("a correction crossed the quantiles: %+v", f)
	}
}

// The prior is made from the load as it is now, not as it was when the
// forecast was asked for.
func TestForecastMovesWithTheLedger(t *testing.T) {
	in := times(1, 1)
	before := decide(t, in).Forecasts[0]
	led := &in.Candidates[0].Load.Ledger
	led.Requests, led.PrefillTokens, led.PrefillContext, led.WaitingContext = 1, 50_000, 1e9, 50_000
	after := decide(t, in)
	if after.Forecasts[0].TTFT.P50 < 2*before.TTFT.P50 {
		t.Errorf("50,000 tokens more moved the forecast from %v to %v", before.TTFT, after.Forecasts[0].TTFT)
	}
	if after.Index != 1 {
		t.Errorf("chose the endpoint that was just charged")
	}
}

func TestExploration(t *testing.T) {
	const epsilon = 0.08
	for _, c := range []struct {
		name string
		ttft []float64
		want []float64
	}{
		{"the cheapest four", []float64{0.1, 0.2, 0.3, 0.4, 0.5}, []float64{0.94, 0.02, 0.02, 0.02, 0}},
		{"wherever they stand", []float64{0.5, 0.4, 0.1, 0.3, 0.2}, []float64{0, 0.02, 0.94, 0.02, 0.02}},
		{"within the harm bound", []float64{0.1, 1.09, 1.11, 3}, []float64{0.96, 0.04, 0, 0}},
		{"nobody within it", []float64{0.1, 1.2, 3}, []float64{1, 0, 0}},
		{"unknown ones never", []float64{0.1, math.NaN(), 0.2}, []float64{0.96, 0, 0.04}},
		{"two tie", []float64{0.1, 0.1, 0.2, 5}, []float64{0.46 + 0.08/3, 0.46 + 0.08/3, 0.08 / 3, 0}},
		{"all that tie with the fourth", []float64{0.1, 0.2, 0.2, 0.2, 0.2, 0.3}, []float64{0.92 + 0.016, 0.016, 0.016, 0.016, 0.016, 0}},
		{"a whole idle pool", []float64{1, 1, 1, 1, 1, 1, 1, 1}, []float64{0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125}},
	} {
		in := times(c.ttft...)
		in.Settings.Exploration = epsilon
		if diff := cmp.Diff(c.want, decide(t, in).Probabilities, about); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// Exploration reaches the endpoints that the affinity filter left out, and its
// harm is counted from what would have been chosen.
func TestExplorationLooksPastTheFilter(t *testing.T) {
	in := times(3, 2.5, 3.9, 4.1)
	in.Candidates[0].CachedTokens = 1000
	expect(in, 0, 3, 0.02)
	in.Settings.Exploration = 0.3
	out := decide(t, in)
	if diff := cmp.Diff([]float64{0.8, 0.1, 0.1, 0}, out.Probabilities, about); diff != "" {
		t.Errorf("probabilities (-want +got):\n%s", diff)
	}
	if out.Reason.Code != policy.Warm {
		t.Errorf("reason is %q", out.Reason)
	}
}

func TestExplorationFrequency(t *testing.T) {
	const draws, epsilon = 50_000, 0.05
	in := times(0.1, 0.2, 0.3, 0.4, 0.5)
	in.Settings.Exploration = epsilon
	explored := 0
	var out policy.Choice
	for in.Seed = range draws {
		if err := policy.Decide(in, &out); err != nil {
			t.Fatal(err)
		}
		if out.Explored != out.Reason.Explored {
			t.Fatal("the choice and its reason disagree on exploration")
		}
		if out.Index != 0 && !out.Explored {
			t.Fatalf("seed %d: chose %d without exploring", in.Seed, out.Index)
		}
		if out.Explored {
			explored++
		}
		if out.Reason.Cost != out.Costs[out.Index] {
			t.Fatalf("seed %d: reason says cost %v, the chosen one's is %v", in.Seed, out.Reason.Cost, out.Costs[out.Index])
		}
	}
	want, deviation := epsilon*draws, math.Sqrt(draws*epsilon*(1-epsilon))
	if math.Abs(float64(explored)-want) > 5*deviation {
		t.Errorf("explored %d of %d, want about %v", explored, draws, want)
	}
}

// No explored endpoint costs more than the least plus the permitted harm.
func TestExplorationHarmIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t, policy.Predicted)
		in.Forecasts = true
		in.Settings.Exploration = 1
		in.Settings.ExplorationHarm = feature.Seconds(rapid.SampledFrom([]float64{0, 0.15, 1, 1e6}).Draw(t, "harm"))
		in.Canary, in.Request.Priority = 0, 0
		exploiting := clone(in)
		exploiting.Settings.Exploration = 0
		var out, best policy.Choice
		if err := policy.Decide(in, &out); err != nil {
			t.Fatal(err)
		}
		if err := policy.Decide(exploiting, &best); err != nil {
			t.Fatal(err)
		}
		if out.Policy != policy.Predicted || out.Index < 0 {
			return
		}
		for i, p := range out.Probabilities {
			if p > 0 && out.Costs[i] > best.Costs[best.Index]+float64(in.Settings.ExplorationHarm) {
				t.Fatalf("candidate %d of cost %v has probability %v; the best costs %v", i, out.Costs[i], p, best.Costs[best.Index])
			}
		}
	})
}

// predictedTwin states the probabilities the long way: sort out the filter,
// take the least, then hand exploration its share.
func predictedTwin(in *policy.Input, out *policy.Choice) []float64 {
	p := make([]float64, len(in.Candidates))
	least := math.Inf(1)
	var pool, known []int
	var warm, cold []float64
	best := policy.Barred
	for i := range in.Candidates {
		best = min(best, in.Candidates[i].Standing)
	}
	for i := range in.Candidates {
		if in.Candidates[i].Standing != best || !out.Forecasts[i].Known() {
			continue
		}
		known = append(known, i)
		ttft := valved(in, out, i)
		if policy.Sticky(in, i) {
			warm = append(warm, ttft)
			pool = append(pool, i)
		} else {
			cold = append(cold, ttft)
		}
	}
	meets := func(i int) bool {
		f, r := &out.Forecasts[i], &in.Request
		return !(r.SLOTTFT > 0 && f.TTFT.P90 > r.SLOTTFT) && !(r.SLOTPOT > 0 && f.TPOT.P90 > r.SLOTPOT)
	}
	if slices.ContainsFunc(known, meets) {
		misses := func(i int) bool { return !meets(i) }
		known, pool = slices.DeleteFunc(known, misses), slices.DeleteFunc(pool, misses)
		warm, cold = nil, nil
		for _, i := range known {
			ttft := valved(in, out, i)
			if policy.Sticky(in, i) {
				warm = append(warm, ttft)
			} else {
				cold = append(cold, ttft)
			}
		}
	}
	penalty := float64(in.Settings.PredictedPenalty)
	if slo := float64(in.Request.SLOTTFT); slo > 0 && slo < penalty {
		penalty = slo
	}
	smallest := func(values []float64) float64 {
		s := math.Inf(1)
		for _, v := range values {
			s = min(s, v)
		}
		return s
	}
	if len(pool) == 0 || len(cold) > 0 && smallest(warm)-smallest(cold) > penalty {
		pool = known
	}
	for _, i := range pool {
		least = min(least, out.Costs[i])
	}
	var ties, explored []int
	for _, i := range pool {
		if out.Costs[i] == least {
			ties = append(ties, i)
		}
	}
	for _, i := range known {
		cheaper := 0
		for _, j := range known {
			if out.Costs[j] < out.Costs[i] {
				cheaper++
			}
		}
		if cheaper < 4 && out.Costs[i] <= least+float64(in.Settings.ExplorationHarm) {
			explored = append(explored, i)
		}
	}
	epsilon := in.Settings.Exploration
	for _, i := range ties {
		p[i] += (1 - epsilon) / float64(len(ties))
	}
	for _, i := range explored {
		p[i] += epsilon / float64(len(explored))
	}
	for i := range p {
		p[i] *= 1 - shedTwin(in, out, known, meets)
	}
	return p
}

// valved is the forecast TTFT as the valve weighs it: of what is waiting for room
// 5/18 counts.
func valved(in *policy.Input, out *policy.Choice, i int) float64 {
	p := in.Candidates[i].Prior(&in.Request)
	ttft := float64(out.Forecasts[i].TTFT.P50)
	room := ttft * float64(p.Admission/p.TTFT)
	return ttft - room + room*5/18
}

// A request stays where its prefix is although room is scarce there, for up to
// 18 s, but for a queue of prefill for up to 5 s alone.
func TestWaitingForRoomOpensTheValveLater(t *testing.T) {
	for _, c := range []struct {
		name      string
		ttft      float64
		full      bool
		wantStays bool
	}{
		{"a queue of 4 s", 4, false, true},
		{"a queue of 7 s", 7, false, false},
		{"no room for 7 s", 7, true, true},
		{"no room for 30 s", 30, true, false},
	} {
		in := input(policy.Predicted, idles(2)...)
		warm := &in.Candidates[0]
		warm.CachedTokens = 900
		if c.full { // most of what the prior says is waiting for others to end
			led := &warm.Load.Ledger
			led.Requests, led.Decoding, led.ContextTokens = 30, 30, 2*warm.Load.Profile.KVCapacityTokens
			led.Remaining[10], led.RemainingContext[10] = 30, led.ContextTokens
			warm.Load.Scraped.KVUsed = 1
			if p := warm.Prior(&in.Request); p.Admission < 0.9*p.TTFT {
				t.Fatalf("%v s of %v s are waiting for room, want nearly all", p.Admission, p.TTFT)
			}
		}
		expect(in, 0, c.ttft, 0.001)
		expect(in, 1, 0.1, 0.001)
		in.Settings.HeadroomWeight = 0
		out := decide(t, in)
		if stays := out.Reason.Code == policy.Warm; stays != c.wantStays {
			t.Errorf("%s: %s", c.name, out.Reason)
		}
	}
}

// shedTwin states the probability that predicted sheds.
func shedTwin(in *policy.Input, out *policy.Choice, known []int, meets func(int) bool) float64 {
	r := &in.Request
	if r.Priority >= 0 || !(r.SLOTTFT > 0) && !(r.SLOTPOT > 0) || slices.ContainsFunc(known, meets) {
		return 0
	}
	least := math.Inf(1)
	for _, i := range known {
		over := 0.0
		if r.SLOTTFT > 0 {
			over = max(over, float64(out.Forecasts[i].TTFT.P90/r.SLOTTFT)-1)
		}
		if r.SLOTPOT > 0 {
			over = max(over, float64(out.Forecasts[i].TPOT.P90/r.SLOTPOT)-1)
		}
		least = min(least, over)
	}
	return min(1, least/in.Settings.ShedExcess)
}

func TestPredictedEqualsTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t, policy.Predicted)
		in.Settings.ExplorationHarm = feature.Seconds(rapid.SampledFrom([]float64{0, 0.15, 1, 1e6}).Draw(t, "harm"))
		in.Settings.ShedExcess = rapid.SampledFrom([]float64{0, 0.5, 100}).Draw(t, "shed excess")
		in.Canary = 0 // that one is TestCanaryMixesBoth's
		var out policy.Choice
		if err := policy.Decide(in, &out); err != nil {
			t.Fatal(err)
		}
		if out.Policy != policy.Predicted || out.Reason.Code == policy.NoCandidate {
			return
		}
		if diff := cmp.Diff(predictedTwin(in, &out), out.Probabilities, about); diff != "" {
			t.Fatalf("probabilities (-twin +got):\n%s", diff)
		}
	})
}
