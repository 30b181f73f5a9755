package fit_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/physics/fit"
)

// seenAt draws n requests to an engine of another kind than the router's
// profile says, whose queue grows from one load to another.
func seenAt(rng *rand.Rand, n int, from, to, noise float64, truth func(request feature.Request, load feature.Load) feature.Prior) []fit.Seen {
	p, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		panic(err)
	}
	rows := make([]fit.Seen, n)
	for i := range rows {
		load := from + (to-from)*rng.Float64()
		request := feature.Request{PromptTokens: math.Exp2(5 + 8*rng.Float64()), ExpectedOutputTokens: 200, Completions: 1}
		decoding := math.Floor(40 * rng.Float64())
		l := feature.Load{
			Scraped: feature.Scraped{Waiting: math.Floor(max(0, load-2)), Running: decoding, KVUsed: decoding / 100},
			Ledger: feature.Ledger{Requests: decoding + math.Floor(load), Decoding: decoding, ContextTokens: 1500 * decoding,
				PrefillTokens: 4000 * math.Floor(load)},
			Profile: feature.Profile{PeakPrefillThroughput: p.PeakPrefillThroughput, MaxBatchedTokens: 8192, MaxNumSeqs: 256, KVCapacityTokens: 262144, SpeedFactor: 1},
		}
		actual := truth(request, l)
		wobble := func() feature.Seconds { return feature.Seconds(math.Exp(noise * rng.NormFloat64())) }
		rows[i] = fit.Seen{
			Vector: feature.Of(request, l, physics.Estimate(p.Coefficients, request, l)),
			TTFT:   actual.TTFT * wobble(), TPOT: actual.TPOT * wobble(), Weight: 1,
		}
	}
	return rows
}

// other is an engine half as fast in prefill, with a longer step and an
// overhead that no profile tells.
func other(request feature.Request, l feature.Load) feature.Prior {
	c := physics.Coefficients{A: 0.02, B: 1e-4, C: 2e-9, D: 2e-4, E: 6e-8}
	p := physics.Estimate(c, request, l)
	p.TTFT += 0.03
	return p
}

// off is the median relative error of f.
func off(f *physics.Fitted, rows []fit.Seen) (ttft, tpot float64) {
	var a, b []float64
	for i := range rows {
		p := f.Estimate(&rows[i].Vector)
		a = append(a, math.Abs(float64(p.TTFT/rows[i].TTFT)-1))
		b = append(b, math.Abs(float64(p.TPOT/rows[i].TPOT)-1))
	}
	slices.Sort(a)
	slices.Sort(b)
	return a[len(a)/2], b[len(b)/2]
}

// TestVectorsLearnAnotherEngine fits at low load and judges far beyond it, where
// the analytic prior of the wrong profile is off by half.
func TestVectorsLearnAnotherEngine(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	low, high := seenAt(rng, 1500, 0, 12, 0.05, other), seenAt(rng, 500, 30, 60, 0, other)
	f, err := fit.Vectors(low, fit.Forms{TTFT: fit.Full, TPOT: fit.Full})
	if err != nil {
		t.Fatal(err)
	}
	ttft, tpot := off(&f, high)
	ownTTFT, ownTPOT := off(&physics.Fitted{}, high)
	if ttft > 0.05 || tpot > 0.15 {
		t.Errorf("beyond the load that was seen: TTFT off by %.3f, TPOT by %.3f, want 0.05 and 0.15; the analytic prior: %.3f and %.3f", ttft, tpot, ownTTFT, ownTPOT)
	}
	if min(ownTTFT, ownTPOT) < 0.3 {
		t.Errorf("the analytic prior is off by %.3f and %.3f only: the test proves nothing", ownTTFT, ownTPOT)
	}
}

// TestVectorsKeepARightPrior: where the analytic prior is right but for a
// number, it is found, also from few rows.
func TestVectorsKeepARightPrior(t *testing.T) {
	p, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		t.Fatal(err)
	}
	slower := func(request feature.Request, l feature.Load) feature.Prior {
		return physics.Estimate(p.Coefficients.Scaled(1.3), request, l)
	}
	rng := rand.New(rand.NewPCG(2, 1))
	rows := seenAt(rng, 80, 0, 12, 0.1, slower)
	f, err := fit.Vectors(rows, fit.Forms{TTFT: fit.Scaled, TPOT: fit.Scaled})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]physics.Curve{"TTFT": f.TTFT, "TPOT": f.TPOT} {
		for _, term := range c.Terms {
			if math.Abs(term.Seconds-1.3) > 0.06 {
				t.Errorf("%s is %+v, want 1.3 of the analytic prior", name, c.Terms)
			}
		}
	}
}

// TestVectorsKeepTheWaitForRoom: an engine that had room for all that was
// learned from, or for most of it, is known to make others wait once it is full,
// by as many of its own steps.
func TestVectorsKeepTheWaitForRoom(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	p, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		t.Fatal(err)
	}
	full := func(prompt, steps float64) (v feature.Vector, waits feature.Seconds) {
		request := feature.Request{PromptTokens: prompt, ExpectedOutputTokens: 200, Completions: 1}
		l := feature.Load{
			Ledger:  feature.Ledger{Requests: 50, Decoding: 40, ContextTokens: 262144, PrefillTokens: 40_000, WaitingContext: 40_000, WaitingStay: steps * 262144},
			Profile: feature.Profile{PeakPrefillThroughput: p.PeakPrefillThroughput, MaxBatchedTokens: 8192, MaxNumSeqs: 256, KVCapacityTokens: 262144, SpeedFactor: 1},
		}
		l.Scraped = feature.Scraped{Waiting: 5, Running: 40, KVUsed: 1}
		return feature.Of(request, l, physics.Estimate(p.Coefficients, request, l)), other(request, l).Admission
	}
	rows := seenAt(rng, 1500, 0, 12, 0.05, other)
	for range 30 { // that were sent while it was full, and found room at once
		v, _ := full(500, 400)
		rows = append(rows, fit.Seen{Vector: v, TTFT: 2, TPOT: 0.03, Weight: 1})
	}
	f, err := fit.Vectors(rows, fit.Forms{TTFT: fit.Full, TPOT: fit.Full})
	if err != nil {
		t.Fatal(err)
	}
	few, _ := full(500, 100)
	many, waits := full(500, 10_000)
	_, fewer := full(500, 100)
	got, want := f.Estimate(&many).TTFT-f.Estimate(&few).TTFT, waits-fewer
	if math.Abs(float64(got/want)-1) > 0.15 {
		t.Errorf("9,900 more steps take %.1f s longer, want %.1f s", got, want)
	}
}

func TestVectorsWeighRowsAndBearOutliers(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	twice := func(r feature.Request, l feature.Load) feature.Prior {
		p := other(r, l)
		return feature.Prior{TTFT: 2 * p.TTFT, TPOT: 2 * p.TPOT}
	}
	rows := seenAt(rng, 1000, 0, 12, 0.03, other)
	for i := range rows {
		if i%20 == 0 {
			rows[i].TTFT *= 30 // a stall
		}
	}
	old := seenAt(rng, 1000, 0, 12, 0.03, twice)
	for i := range old {
		old[i].Weight = 1e-3
	}
	f, err := fit.Vectors(append(old, rows...), fit.Forms{TTFT: fit.Full, TPOT: fit.Full})
	if err != nil {
		t.Fatal(err)
	}
	if ttft, tpot := off(&f, seenAt(rng, 500, 0, 12, 0, other)); ttft > 0.05 || tpot > 0.05 {
		t.Errorf("TTFT off by %.3f, TPOT by %.3f, want 0.05", ttft, tpot)
	}
}

func TestVectorsOfTooFewRowsKeepTheAnalyticPrior(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	rows := seenAt(rng, 300, 0, 12, 0.03, other)
	for i := range rows {
		if i >= 49 {
			rows[i].TPOT = feature.Seconds(feature.Unknown)
		}
	}
	f, err := fit.Vectors(rows, fit.Forms{TTFT: fit.Full, TPOT: fit.Full})
	if err != nil || f.TPOT.Terms != nil || f.TTFT.Terms == nil {
		t.Errorf("%d terms of TTFT and %d of TPOT, %v: want some and none", len(f.TTFT.Terms), len(f.TPOT.Terms), err)
	}
	if f, err := fit.Vectors(nil, fit.Forms{TTFT: fit.Full, TPOT: fit.Full}); err != nil || f.TTFT.Terms != nil {
		t.Errorf("of no rows: %+v, %v", f, err)
	}
}

func BenchmarkVectors(b *testing.B) {
	rows := seenAt(rand.New(rand.NewPCG(5, 1)), 8000, 0, 40, 0.1, other)
	for b.Loop() {
		if _, err := fit.Vectors(rows, fit.Forms{TTFT: fit.Full, TPOT: fit.Full}); err != nil {
			b.Fatal(err)
		}
	}
}
