package policy_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
)

// flight is one request in flight as the exact form of the cost sees it.
type flight struct{ prompt, uncached, expected, streamed float64 }

// rem is what it has still to generate.
func (f flight) rem() float64 { return max(f.expected-f.streamed, math.Floor(0.3*f.streamed), 1) }

// exact is the cost of one candidate from the list of requests in flight, as
// it is written down: sums over requests, no histograms.
func exact(in *policy.Input, c *policy.Candidate, t, q, h, scale float64, list []flight) policy.Terms {
	k := c.Coefficients.Scaled(c.Load.Profile.SpeedFactor)
	p, o, capacity := in.Request.PromptTokens, in.Request.ExpectedOutputTokens, c.Load.Profile.KVCapacityTokens
	u := max(16, p-c.CachedTokens)
	lamP, lamE, lamD := 0.3, 0.03, 0.5*h
	work := scale * (k.B*u + k.C*u*(p-u/2))
	alive, overlap, streamed, pending := 0.0, 0.0, 0.0, 0.0
	for _, f := range list {
		if f.rem()*q > t-work {
			alive++
		}
		overlap += min(f.rem(), o)
		streamed += f.streamed
		if f.streamed == 0 {
			pending += f.uncached
		}
	}
	pe := min(1, max(0, (c.HotTokens+u+streamed-0.9*capacity)/u))
	busy := k.B*c.Load.Ledger.PrefillRate + k.C*c.Load.Ledger.PrefillContextRate
	rho := min(0.85, 1.2*busy)
	shared, held := 0.0, 0.0
	for i := range in.Candidates {
		l := &in.Candidates[i].Load.Ledger
		shared += l.SharedContext
		held += l.ContextTokens + l.WaitingContext - l.SharedContext
	}
	crowded := 0.0
	if held > 0 {
		crowded = 3 * shared / held * min(1, u/p) * min(1, (c.HotTokens+streamed)/capacity)
	}
	return policy.Terms{
		TTFT:     feature.Seconds(t),
		Output:   feature.Seconds(q * o),
		Eviction: feature.Seconds(3 * pe * work * (1 + lamE*alive)),
		Headroom: feature.Seconds(30 * 1.3 * scale * k.B * max(0, c.Load.Scraped.KVUsed*capacity+pending+u+o/2-0.9*capacity)),
		Crowding: feature.Seconds(crowded * (t + q*o)),
		Prefill:  feature.Seconds(lamP * (work + scale*k.A*u/8192) * alive),
		Queue:    feature.Seconds(min(0.7, busy) / (1 - min(0.7, busy)) * (t - work/2)),
		Decode:   feature.Seconds(lamD * scale * (k.D + k.E*(p+o/2)) / (1 - rho) * overlap),
	}
}

// bucket puts a request in flight into the histogram as the ledger does.
func bucket(l *feature.Ledger, f flight) {
	i := min(int(math.Floor(math.Log2(f.rem())+1e-12)), feature.RemainingBuckets-1)
	l.Remaining[i]++
	l.Requests++
	l.GeneratedTokens += f.streamed
	if f.streamed == 0 {
		l.PrefillTokens += f.uncached
	} else {
		l.Decoding++
	}
}

// load puts a list in flight at c, and gives both routes of the cost the same
// of everything else.
func loaded(c *policy.Candidate, list []flight) {
	for _, f := range list {
		bucket(&c.Load.Ledger, f)
	}
}

// unequal makes an input whose second candidate is measured to be as many times
// slower as the spread asks for.
func unequal(spread float64) *policy.Input {
	in := input(policy.Predicted, idles(2)...)
	for i := range in.Candidates {
		in.Candidates[i].SpeedSteps = 1000
	}
	in.Candidates[1].Load.Profile.SpeedFactor = spread
	return in
}

// The spread of two is the ratio of what lies 95 % and 5 % of the way between
// them.
func steepness(spread float64) float64 {
	ratio := (1 + 0.95*(spread-1)) / (1 + 0.05*(spread-1))
	return min(1, max(0, (ratio-1.25)/0.75))
}

func TestCostEqualsItsExactForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spread := rapid.SampledFrom([]float64{1, 1.2, 1.6, 4}).Draw(t, "spread")
		in := unequal(spread)
		in.Request.PromptTokens = rapid.Float64Range(100, 60_000).Draw(t, "prompt")
		in.Request.ExpectedOutputTokens = rapid.Float64Range(1, 4000).Draw(t, "output")
		c := &in.Candidates[0]
		c.CachedTokens = in.Request.PromptTokens * rapid.Float64Range(0, 1).Draw(t, "cached")
		c.HotTokens = rapid.Float64Range(0, 400_000).Draw(t, "hot")
		c.Load.Scraped.KVUsed = rapid.Float64Range(0, 1).Draw(t, "kv")
		c.Load.Ledger.PrefillRate = rapid.Float64Range(0, 30_000).Draw(t, "rate")
		for i := range in.Candidates {
			l := &in.Candidates[i].Load.Ledger
			l.ContextTokens = rapid.Float64Range(1, 400_000).Draw(t, "context")
			l.SharedContext = l.ContextTokens * rapid.Float64Range(0, 0.9).Draw(t, "shared")
		}
		// Requests with so much to go that a whole bucket is on one side of
		// every limit: what the histogram forgets makes no difference.
		var list []flight
		for range rapid.IntRange(0, 60).Draw(t, "in flight") {
			list = append(list, flight{
				prompt: 1000, uncached: rapid.Float64Range(16, 5000).Draw(t, "uncached"),
				expected: rapid.SampledFrom([]float64{1, 500_000}).Draw(t, "expected"),
			})
		}
		loaded(c, list)
		const scale = 1.3
		for i := range in.Candidates {
			in.Candidates[i].Residual = feature.Residual{
				TTFT: feature.LogQuantiles{P50: math.Log(scale) - 0.1, P90: 1},
				TPOT: feature.LogQuantiles{P50: math.Log(scale) - 0.1, P90: 1},
			}
			in.Candidates[i].Correction = feature.Residual{TTFT: feature.LogQuantiles{P50: 0.1}, TPOT: feature.LogQuantiles{P50: 0.1}}
		}
		in.Candidates[1].Load.Scraped.KVUsed = 0.5
		out := decide(t, in)
		prior := c.Prior(&in.Request)
		want := exact(in, c, scale*float64(prior.TTFT), scale*float64(prior.TPOT), steepness(spread), scale, list)
		got := out.Terms(in, 0)
		for _, x := range []struct {
			name      string
			got, want feature.Seconds
		}{
			{"TTFT", got.TTFT, want.TTFT},
			{"output", got.Output, want.Output},
			{"eviction", got.Eviction, want.Eviction},
			{"headroom", got.Headroom, want.Headroom},
			{"crowding", got.Crowding, want.Crowding},
			{"prefill", got.Prefill, want.Prefill},
			{"queue", got.Queue, want.Queue},
			{"decode", got.Decode, want.Decode},
			{"cost", feature.Seconds(out.Costs[0]), want.Cost()},
		} {
			if !(math.Abs(float64(x.got-x.want)) <= 1e-9*(1+math.Abs(float64(x.want)))) {
				t.Fatalf("%s is %v s, want %v s (T - work %v)", x.name, x.got, x.want, prior)
			}
		}
	})
}

// Where a limit lies inside a bucket, the histogram is wrong by no more than
// what stands in that bucket, and right on average over evenly spread requests.
func TestHistogramsStandForRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := unequal(3)
		in.Request.ExpectedOutputTokens = rapid.Float64Range(1, 3000).Draw(t, "output")
		even := rapid.Bool().Draw(t, "even")
		var list []flight
		if even {
			for rem := 64.0; rem < 4096; rem++ {
				list = append(list, flight{prompt: 500, uncached: 100, expected: rem})
			}
		} else {
			for range rapid.IntRange(1, 40).Draw(t, "in flight") {
				list = append(list, flight{
					prompt: 500, uncached: 100, expected: rapid.Float64Range(1, 4000).Draw(t, "expected"),
					streamed: math.Floor(rapid.Float64Range(0, 3000).Draw(t, "streamed")),
				})
				list[len(list)-1].expected = math.Floor(list[len(list)-1].expected)
			}
		}
		loaded(&in.Candidates[0], list)
		expectAll(in, 2, 0.01) // 200 tokens pass while the request waits
		out := decide(t, in)
		c := &in.Candidates[0]
		prior := c.Prior(&in.Request)
		scale := 2 / float64(prior.TTFT)
		work := float64(c.Coefficients.Work(1000, 1000)) * scale
		want := exact(in, c, 2, 0.01, steepness(3), scale, list)
		got := out.Terms(in, 0)

		limit := (2 - work) / 0.01
		unsure, most := 0.0, 0.0 // requests in the bucket of the limit; error of the overlap
		for _, f := range list {
			low := math.Exp2(math.Floor(math.Log2(f.rem())))
			if low <= limit && limit < 2*low {
				unsure++
			}
			most += min(2*low-1, in.Request.ExpectedOutputTokens) - min(low, in.Request.ExpectedOutputTokens)
		}
		each := 0.3 * (work + scale*c.Coefficients.A*1000/8192)
		if d := math.Abs(float64(got.Prefill - want.Prefill)); d > each*unsure+1e-9 || even && d > 2*each+0.01*float64(want.Prefill) {
			t.Fatalf("prefill externality %v, exact %v, %v requests are unsure", got.Prefill, want.Prefill, unsure)
		}
		overlap := 0.0
		for _, f := range list {
			overlap += min(f.rem(), in.Request.ExpectedOutputTokens)
		}
		// The exact form was scaled by the residual of TTFT.
		decode := float64(want.Decode) / scale * 0.01 / float64(prior.TPOT)
		if d := math.Abs(float64(got.Decode) - decode); d > decode/overlap*most+1e-9 || even && d > 0.005*decode {
			t.Fatalf("decode externality %v, exact %v", got.Decode, decode)
		}
	})
}

// One sick endpoint makes the speeds of many no less equal; half a fleet of
// another speed does, whether that is measured or known of its class.
func TestOneSickEndpointIsNoSpread(t *testing.T) {
	decodeTerm := func(n int, slow func(i int, c *policy.Candidate)) feature.Seconds {
		in := input(policy.Predicted, idles(n)...)
		for i := range in.Candidates {
			c := &in.Candidates[i]
			c.SpeedSteps = 1000
			slow(i, c)
			bucket(&c.Load.Ledger, flight{prompt: 100, uncached: 100, expected: 500})
		}
		expectAll(in, 0.1, 0.02)
		return decide(t, in).Terms(in, 0).Decode
	}
	for _, c := range []struct {
		name string
		n    int
		slow func(int, *policy.Candidate)
		want bool
	}{
		{"all alike", 10, func(int, *policy.Candidate) {}, false},
		{"one sick of 40", 40, func(i int, c *policy.Candidate) {
			if i == 3 {
				c.Load.Profile.SpeedFactor = 5
			}
		}, false},
		{"half of them", 40, func(i int, c *policy.Candidate) { c.Load.Profile.SpeedFactor = 1 + float64(i%2) }, true},
		{"half of them, by class", 40, func(i int, c *policy.Candidate) {
			c.Coefficients = c.Coefficients.Scaled(1 + float64(i%2))
		}, true},
		{"too little measured", 40, func(i int, c *policy.Candidate) {
			c.Load.Profile.SpeedFactor = 1 + float64(i%2)
			c.SpeedSteps = 99
		}, false},
		{"a little", 40, func(i int, c *policy.Candidate) { c.Load.Profile.SpeedFactor = 1 + 0.2*float64(i%2) }, false},
	} {
		if got := decodeTerm(c.n, c.slow); (got > 0) != c.want {
			t.Errorf("%s: the decode externality is %v s", c.name, got)
		}
	}
}

// A KV cache that says how full it is must not look worse than one that does
// not: where one is silent, all are taken by what the router sent.
func TestUnknownKVCacheIsImputedForAll(t *testing.T) {
	in := input(policy.Predicted, idles(2)...)
	for i := range in.Candidates {
		in.Candidates[i].Load.Ledger.ContextTokens = 1000
	}
	in.Candidates[0].Load.Scraped.KVUsed = 0.99
	in.Candidates[1].Load.Scraped.KVUsed = math.NaN()
	expectAll(in, 0.1, 0.02)
	out := decide(t, in)
	if a, b := out.Terms(in, 0), out.Terms(in, 1); a != b || a.Headroom != 0 {
		t.Errorf("terms are %+v and %+v", a, b)
	}
	in.Candidates[1].Load.Scraped.KVUsed = 0.5
	out = decide(t, in)
	if a, b := out.Terms(in, 0), out.Terms(in, 1); a.Headroom <= 0 || b.Headroom != 0 || out.Index != 1 {
		t.Errorf("terms are %+v and %+v, chose %d", a, b, out.Index)
	}
}

// Where requests in flight stand on the same prefixes, a new one is placed where
// less of the cache is in use, although it takes a little longer there; one
// that is known everywhere is not, and neither is one where nobody shares.
func TestFollowersAreGivenRoom(t *testing.T) {
	for _, c := range []struct {
		name           string
		shared, cached float64
		want           int
	}{
		{"all share", 150_000, 0, 1},
		{"nobody shares", 0, 0, 0},
		{"known in both places", 150_000, 1000, 0},
	} {
		in := times(0.1, 0.1)
		for i := range in.Candidates {
			x := &in.Candidates[i]
			x.HotTokens, x.CachedTokens = 200_000*float64(1-i), c.cached
			x.Load.Ledger.ContextTokens, x.Load.Ledger.SharedContext = 300_000, c.shared
		}
		expect(in, 0, 0.1, 0.0200)
		expect(in, 1, 0.1, 0.021)
		out := decide(t, in)
		if a, b := out.Terms(in, 0), out.Terms(in, 1); out.Index != c.want || c.shared == 0 && a.Crowding+b.Crowding != 0 {
			t.Errorf("%s: chose %d, want %d: %+v and %+v", c.name, out.Index, c.want, a, b)
		}
	}
}

func TestTermsAreOfPredictedAlone(t *testing.T) {
	in := input(policy.CombinedLoad, idles(2)...)
	if x := decide(t, in).Terms(in, 0); !feature.IsUnknown(x.TTFT) || !feature.IsUnknown(x.Cost()) {
		t.Errorf("combined-load has the terms %+v", x)
	}
	in = times(feature.Unknown, 0.1)
	if x := decide(t, in).Terms(in, 0); !feature.IsUnknown(x.TTFT) {
		t.Errorf("an endpoint without a forecast has the terms %+v", x)
	}
}

// Weights of zero leave terms out.
func TestWeightsOfZero(t *testing.T) {
	in := unequal(4)
	c := &in.Candidates[0]
	c.HotTokens, c.Load.Scraped.KVUsed, c.Load.Ledger.PrefillRate = 400_000, 1, 5000
	loaded(c, []flight{{1000, 1000, 5000, 10}})
	c.Load.Ledger.ContextTokens, c.Load.Ledger.SharedContext = 4000, 1000
	expectAll(in, 1, 0.02)
	full := decide(t, in).Terms(in, 0)
	for name, x := range map[string]feature.Seconds{"eviction": full.Eviction, "headroom": full.Headroom, "crowding": full.Crowding, "prefill": full.Prefill, "queue": full.Queue, "decode": full.Decode} {
		if !(x > 0) {
			t.Errorf("%s is %v s", name, x)
		}
	}
	s := &in.Settings
	s.Impatience = 1.5
	if got, want := decide(t, in).Terms(in, 0), 1.5*full.TTFT; got.Impatience != want || got.TTFT != full.TTFT {
		t.Errorf("impatience of 1.5 is %v s, want %v s beside %v s", got.Impatience, want, full.TTFT)
	}
	s.Impatience = 0
	s.EvictionWeight, s.HeadroomWeight, s.EvictionExternality, s.PrefillExternality, s.QueueExternality, s.DecodeExternality = 0, 0, 0, 0, 0, 0
	if got := decide(t, in).Terms(in, 0); got != (policy.Terms{TTFT: full.TTFT, Output: full.Output}) {
		t.Errorf("without weights the terms are %+v", got)
	}
}
