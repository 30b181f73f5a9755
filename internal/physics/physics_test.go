package physics_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
)

func profile(t testing.TB) physics.Profile {
	t.Helper()
	p, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func idle(p physics.Profile) feature.Load {
	unknown := feature.Unknown
	return feature.Load{Scraped: feature.Scraped{Waiting: unknown, Running: unknown, KVUsed: unknown, Age: feature.Seconds(unknown)}, Profile: feature.Profile{
		PeakPrefillThroughput: p.PeakPrefillThroughput,
		MaxBatchedTokens:      float64(p.MaxBatchedTokens),
		MaxNumSeqs:            float64(p.MaxNumSeqs),
		KVCapacityTokens:      float64(p.KVCapacityTokens),
		SpeedFactor:           1,
	}}
}

func near(t *testing.T, what string, got feature.Seconds, want float64) {
	t.Helper()
	if math.Abs(float64(got)-want) > 1e-9+1e-6*want {
		t.Errorf("%s is %.6f s, want %.6f s", what, got, want)
	}
}

func TestIdleEndpoint(t *testing.T) {
	p := profile(t)
	c := p.Coefficients
	got := physics.Estimate(c, feature.Request{PromptTokens: 8192, ExpectedOutputTokens: 100, Completions: 1}, idle(p))
	// One step of 8,192 tokens: a + b*U + c*U^2/2 = 0.014 + 0.393 + 0.057.
	near(t, "TTFT", got.TTFT, c.A+c.B*8192+c.C*8192*4096)
	near(t, "TPOT", got.TPOT, c.A+c.D+c.E*(8192+50))
}

func TestQueuedPrefillIsAhead(t *testing.T) {
	p := profile(t)
	c := p.Coefficients
	l := idle(p)
	l.Ledger.Requests, l.Ledger.PrefillTokens, l.Ledger.PrefillContext = 1, 8192, 8192*4096
	l.Ledger.HeadTokens, l.Ledger.HeadContext, l.Ledger.HeadElapsed = 8192, 8192*4096, 0.1
	l.Ledger.WaitingContext = 8192
	r := feature.Request{PromptTokens: 1024, ExpectedOutputTokens: 100, Completions: 1}
	got := physics.Estimate(c, r, l)
	step := c.A
	ahead := c.B*8192 + c.C*8192*4096 - 0.97*0.1
	own := c.B*1024 + c.C*1024*512
	near(t, "TTFT", got.TTFT, 0.5*step+step+ahead+own+step)
}

func TestAdmissionWaitsForASequence(t *testing.T) {
	p := profile(t)
	p.MaxNumSeqs = 4
	l := idle(p)
	l.Ledger.Requests, l.Ledger.Decoding, l.Ledger.ContextTokens = 4, 4, 4000
	l.Ledger.Remaining[6] = 4 // 64 to 128 tokens to go each
	r := feature.Request{PromptTokens: 16, ExpectedOutputTokens: 10, Completions: 1}
	full := physics.Estimate(p.Coefficients, r, l)
	p.MaxNumSeqs = 8
	l.Profile.MaxNumSeqs = 8
	free := physics.Estimate(p.Coefficients, r, l)
	wait := float64(full.TTFT - free.TTFT)
	// The first of four evenly spread ends after 64 + 64/4 = 80 steps of about 14.5 ms.
	if wait < 79*0.014 || wait > 81*0.016 {
		t.Errorf("admission waits %.3f s, want about 80 steps", wait)
	}
}

func TestAdmissionWaitsForBlocks(t *testing.T) {
	p := profile(t)
	l := idle(p)
	l.Ledger.Requests, l.Ledger.Decoding, l.Ledger.ContextTokens = 2, 2, 260_000
	l.Ledger.Remaining[9], l.Ledger.RemainingContext[9] = 2, 260_000
	fits := physics.Estimate(p.Coefficients, feature.Request{PromptTokens: 1000, ExpectedOutputTokens: 1, Completions: 1}, l)
	waits := physics.Estimate(p.Coefficients, feature.Request{PromptTokens: 20_000, ExpectedOutputTokens: 1, Completions: 1}, l)
	if waits.TTFT-fits.TTFT < 512*0.014 {
		t.Errorf("a prompt that does not fit waits only %.3f s longer", waits.TTFT-fits.TTFT)
	}
}

// TestAdmissionOfPromptsThatBeginAlike: what all of a hundred requests begin with is
// held once, also for the next that begins so.
func TestAdmissionOfPromptsThatBeginAlike(t *testing.T) {
	p := profile(t)
	wait := func(context, shared, kvUsed, sent float64) feature.Seconds {
		l := idle(p)
		l.Ledger.Requests, l.Ledger.Decoding, l.Ledger.ContextTokens, l.Ledger.SharedContext = 100, 100, context, shared
		l.Ledger.Remaining[9], l.Ledger.RemainingContext[9] = 100, context
		l.Ledger.SinceScrape, l.Ledger.SinceScrapeContext = sent/10_000, sent
		l.Scraped = feature.Scraped{Running: 100, KVUsed: kvUsed, Age: 1}
		r := feature.Request{PromptTokens: 10_000, CachedTokens: 9_900, ExpectedOutputTokens: 100, Completions: 1}
		return physics.Estimate(p.Coefficients, r, l).Admission
	}
	const capacity = 262_144
	for _, c := range []struct {
		what                          string
		context, shared, kvUsed, sent float64
		waits                         bool
	}{
		{"ten hold what is distinct, and there is room for 100 more tokens", 1_000_000, 743_000, 0.99, 0, false},
		{"an old number and what was sent since leave room, too", 1_000_000, 743_000, 0.93, 30_000, false},
		{"there is no room", 1_000_000, 735_000, 0.999, 0, true},
		{"nothing is held for two", 261_000, 0, 0.99, 0, true},
	} {
		if got := wait(c.context, c.shared, c.kvUsed, c.sent); (got > 0) != c.waits {
			t.Errorf("%s: it waits %.2f s for room in %d tokens", c.what, got, capacity)
		}
	}
}

func TestSpeedFactorScalesAll(t *testing.T) {
	p := profile(t)
	r := feature.Request{PromptTokens: 2000, ExpectedOutputTokens: 100, Completions: 1}
	l := idle(p)
	one := physics.Estimate(p.Coefficients, r, l)
	l.Profile.SpeedFactor = 2
	two := physics.Estimate(p.Coefficients, r, l)
	near(t, "TTFT", two.TTFT, 2*float64(one.TTFT))
	near(t, "TPOT", two.TPOT, 2*float64(one.TPOT))
	l.Profile.SpeedFactor = math.NaN()
	unknown := physics.Estimate(p.Coefficients, r, l)
	near(t, "TTFT at unknown speed", unknown.TTFT, float64(one.TTFT))
}

func TestForeignLoadCounts(t *testing.T) {
	p := profile(t)
	r := feature.Request{PromptTokens: 100, ExpectedOutputTokens: 100, Completions: 1}
	quiet := physics.Estimate(p.Coefficients, r, idle(p))
	l := idle(p)
	l.Scraped = feature.Scraped{Running: 100, KVUsed: 0.5}
	busy := physics.Estimate(p.Coefficients, r, l)
	if busy.TPOT < 1.5*quiet.TPOT {
		t.Errorf("100 foreign requests moved TPOT only from %.4f to %.4f s", quiet.TPOT, busy.TPOT)
	}
}

// More of anything that loads an endpoint never makes it look faster, and the
// prior is always a positive number.
func TestPriorIsMonotoneInOwnLoad(t *testing.T) {
	p := profile(t)
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, most float64) float64 { return rapid.Float64Range(0, most).Draw(t, name) }
		l := idle(p)
		l.Ledger.Decoding = math.Floor(draw("decoding", 300))
		l.Ledger.Requests = l.Ledger.Decoding + math.Floor(draw("prefilling", 50))
		l.Ledger.ContextTokens = draw("context", 3e5)
		l.Ledger.PrefillTokens = draw("prefill", 3e5)
		l.Ledger.PrefillContext = draw("product", 1e9)
		l.Ledger.WaitingContext = l.Ledger.PrefillTokens
		l.Ledger.PrefillRate = draw("rate", 4e4)
		r := feature.Request{PromptTokens: draw("prompt", 1e5), ExpectedOutputTokens: draw("output", 4000), Completions: 1}
		before := physics.Estimate(p.Coefficients, r, l)
		if !(before.TTFT > 0) || !(before.TPOT > 0) || math.IsInf(float64(before.TTFT+before.TPOT), 0) {
			t.Fatalf("prior is %+v", before)
		}
		l.Ledger.WaitingOutput, l.Ledger.WaitingStay, l.Ledger.SharedContext = draw("waiting output", 1e4), draw("stay", 1e10), draw("shared", 1e5)
		l.Ledger.Remaining[6], l.Ledger.RemainingContext[6] = 90, 2e5
		if rapid.Bool().Draw(t, "scraped") {
			l.Scraped = feature.Scraped{Waiting: math.Floor(draw("waiting", 3)), Running: 10, KVUsed: draw("kv", 1), Age: 1}
		}
		more := draw("more", 5e4)
		switch rapid.IntRange(0, 8).Draw(t, "what") {
		case 0:
			l.Ledger.ContextTokens += more
		case 1:
			l.Ledger.PrefillTokens += more
			l.Ledger.WaitingContext += more
		case 2:
			r.PromptTokens += more
		case 3:
			l.Ledger.PrefillRate += more
		case 4:
			l.Ledger.Requests++
			l.Ledger.Decoding++
		case 5:
			l.Ledger.WaitingStay += 1e5 * more
		case 6:
			l.Ledger.WaitingOutput += more
		case 7:
			l.Ledger.SharedContext -= min(more, l.Ledger.SharedContext)
		case 8:
			l.Ledger.SinceScrapeContext += more
		}
		after := physics.Estimate(p.Coefficients, r, l)
		if after.TTFT < before.TTFT-1e-12 || after.TPOT < before.TPOT-1e-12 {
			t.Fatalf("more load made %+v of %+v", after, before)
		}
	})
}

func TestProfiles(t *testing.T) {
	for _, p := range physics.Profiles() {
		if err := p.Check(); err != nil {
			t.Error(err)
		}
		if p.Source == "" {
			t.Errorf("profile %s names no source", p.Name)
		}
	}
	slow, err := physics.Named("qwen3-32b-h100-tp2-routing-x1.8")
	if err != nil {
		t.Fatal(err)
	}
	if want := profile(t).Coefficients.Scaled(1.8); slow.Coefficients != want {
		t.Errorf("slowed coefficients are %+v, want %+v", slow.Coefficients, want)
	}
	if _, err := physics.Named("nonsense"); err == nil {
		t.Error("Named finds nonsense")
	}
	if err := (physics.Profile{Name: "x"}).Check(); err == nil {
		t.Error("an empty profile passes")
	}
	if err := (physics.Coefficients{A: math.NaN(), B: 1}).Check(); err == nil {
		t.Error("a NaN coefficient passes")
	}
}

func TestEstimateAllocatesNothing(t *testing.T) {
	p := profile(t)
	l := idle(p)
	r := feature.Request{PromptTokens: 100, ExpectedOutputTokens: 100, Completions: 1}
	if n := testing.AllocsPerRun(100, func() { physics.Estimate(p.Coefficients, r, l) }); n != 0 {
		t.Errorf("Estimate allocates %v times", n)
	}
}

// TestThePriorNeverFallsWithLoad raises any numbers of a load, those that only
// another router's requests explain among them.
func TestThePriorNeverFallsWithLoad(t *testing.T) {
	p := profile(t)
	rapid.Check(t, func(rt *rapid.T) {
		number := func(most float64) float64 { return math.Floor(rapid.Float64Range(0, most).Draw(rt, "number")) }
		draw := func() (feature.Request, feature.Load) {
			l := idle(p)
			l.Scraped = feature.Scraped{Waiting: number(20), Running: number(100), KVUsed: rapid.Float64Range(0, 1).Draw(rt, "kv")}
			l.Ledger = feature.Ledger{Requests: number(80), Decoding: number(60), PrefillTokens: number(40_000), ContextTokens: number(100_000),
				WaitingContext: number(40_000), PrefillRate: number(20_000), WaitingOutput: number(10_000), WaitingStay: number(1e9), SinceScrapeContext: number(40_000)}
			l.Ledger.Remaining[7], l.Ledger.RemainingContext[7] = 400, 400_000
			r := feature.Request{PromptTokens: number(20_000), ExpectedOutputTokens: 200, Completions: 1 + number(3)}
			r.CachedTokens = math.Floor(r.PromptTokens * rapid.Float64Range(0, 1).Draw(rt, "cached"))
			return r, l
		}
		r, l := draw()
		by, more := draw()
		r2, l2 := r, l
		for _, x := range []struct{ at, by *float64 }{
			{&r2.PromptTokens, &by.PromptTokens}, {&r2.Completions, &by.Completions},
			{&l2.Scraped.Running, &more.Scraped.Running}, {&l2.Scraped.KVUsed, &more.Scraped.KVUsed},
			{&l2.Ledger.Requests, &more.Ledger.Requests}, {&l2.Ledger.Decoding, &more.Ledger.Decoding},
			{&l2.Ledger.PrefillTokens, &more.Ledger.PrefillTokens}, {&l2.Ledger.ContextTokens, &more.Ledger.ContextTokens},
			{&l2.Ledger.WaitingContext, &more.Ledger.WaitingContext}, {&l2.Ledger.PrefillRate, &more.Ledger.PrefillRate},
			{&l2.Ledger.WaitingOutput, &more.Ledger.WaitingOutput}, {&l2.Ledger.WaitingStay, &more.Ledger.WaitingStay},
			{&l2.Ledger.SinceScrapeContext, &more.Ledger.SinceScrapeContext}, {&l2.Scraped.Waiting, &more.Scraped.Waiting},
		} {
			if rapid.Bool().Draw(rt, "raised") {
				*x.at += *x.by
			}
		}
		a, b := physics.Estimate(p.Coefficients, r, l), physics.Estimate(p.Coefficients, r2, l2)
		if float64(b.TTFT) < float64(a.TTFT)*(1-1e-12) || float64(b.TPOT) < float64(a.TPOT)*(1-1e-12) ||
			float64(b.Admission) < float64(a.Admission)*(1-1e-12) || float64(b.TTFT-b.Admission) < float64(a.TTFT-a.Admission)*(1-1e-9) {
			rt.Fatalf("from %+v %+v to %+v %+v the prior went from %v to %v", r, l, r2, l2, a, b)
		}
	})
}
