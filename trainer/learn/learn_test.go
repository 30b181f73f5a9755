package learn_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/trainer/learn"
)

var began = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// request and load of an endpoint with so many requests before it.
func state(rng *rand.Rand, queue float64) (feature.Request, feature.Load) {
	r := feature.Request{PromptTokens: math.Exp2(6 + 7*rng.Float64()), ExpectedOutputTokens: 300 * rng.Float64(), MaxOutputTokens: feature.Unknown, Completions: 1}
	r.CachedTokens = math.Floor(r.PromptTokens * rng.Float64() * float64(rng.IntN(2)))
	decoding := math.Floor(50 * rng.Float64())
	queue = math.Floor(queue * rng.Float64())
	return r, feature.Load{
		Scraped: feature.Scraped{Waiting: queue, Running: decoding, KVUsed: decoding / 60, Age: feature.Seconds(rng.Float64())},
		Ledger: feature.Ledger{Requests: decoding + queue, Decoding: decoding, ContextTokens: 1200 * decoding, PrefillTokens: 3000 * queue,
			SinceScrape: math.Floor(3 * rng.Float64()), SinceScrapeTok: 2000 * rng.Float64()},
		Profile: feature.Profile{PeakPrefillThroughput: 15928, MaxBatchedTokens: 8192, MaxNumSeqs: 256, KVCapacityTokens: 262144, SpeedFactor: 0.8 + 0.4*rng.Float64()},
	}
}

func coefficients(t testing.TB) physics.Coefficients {
	t.Helper()
	p, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		t.Fatal(err)
	}
	return p.Coefficients
}

// world draws samples whose distance from the analytic prior is told by their
// load, with noise: queue is how many requests wait at most in sample i of n.
func world(t testing.TB, seed uint64, n int, queue func(i int) float64, distance func(feature.Load) (ttft, tpot float64)) []learn.Sample {
	rng := rand.New(rand.NewPCG(seed, 1))
	c := coefficients(t)
	out := make([]learn.Sample, n)
	for i := range out {
		r, l := state(rng, queue(i))
		ttft, tpot := distance(l)
		at := began.Add(time.Duration(i) * time.Second)
		out[i] = learn.Sample{
			Decided: at, Finished: at, Class: "h100", Vector: feature.Of(r, l, physics.Estimate(c, r, l)),
			TTFT: ttft + 0.06*rng.NormFloat64(), TPOT: tpot + 0.06*rng.NormFloat64(),
		}
	}
	return out
}

func steady(int) float64 { return 10 }

func crooked(l feature.Load) (ttft, tpot float64) {
	return 0.4*math.Tanh(l.Scraped.Waiting/6) - 0.1, 0.3*l.Scraped.KVUsed - 0.2
}

var all = [bundle.Targets]bool{true, true, true, true}

func fitted(t testing.TB, samples []learn.Sample) *bundle.Bundle {
	t.Helper()
	b, err := learn.Fit(t.Context(), learn.Task{LLM: "qwen", At: began, Samples: samples, Learned: all}, quick())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// quick are settings whose fits take little time.
func quick() learn.Settings {
	s := learn.Defaults()
	s.Forest.Trees, s.Forest.LearningRate = 40, 0.2
	return s
}

func forecasts(t testing.TB, b *bundle.Bundle, samples []learn.Sample) []feature.Forecast {
	t.Helper()
	e, err := b.Evaluator()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]feature.Forecast, len(samples))
	e.Evaluate(learn.Vectors(samples), out)
	return out
}

// miss is the median |ln(actual/forecast)| of TTFT and TPOT, and the shares of
// actuals at or below the p90.
func miss(out []feature.Forecast, samples []learn.Sample) (off, below [2]float64) {
	for k := range off {
		var errors []float64
		for i, s := range samples {
			y, f := [2]float64{s.TTFT, s.TPOT}[k], [2]feature.LogQuantiles{out[i].Residual.TTFT, out[i].Residual.TPOT}[k]
			errors = append(errors, math.Abs(y-f.P50))
			if y <= f.P90 {
				below[k] += 1 / float64(len(samples))
			}
		}
		slices.Sort(errors)
		off[k] = errors[len(errors)/2]
	}
	return off, below
}

// The median of |noise|, of which no forecast knows anything.
const floor = 0.06 * 0.674

func TestFitFindsWhatTheLoadTells(t *testing.T) {
	b := fitted(t, world(t, 1, 1500, steady, crooked))
	later := world(t, 2, 1000, steady, crooked)
	off, below := miss(forecasts(t, b, later), later)
	for k, name := range []string{"TTFT", "TPOT"} {
		if off[k] > 1.3*floor {
			t.Errorf("%s is off by %.3f, of which noise is %.3f", name, off[k], floor)
		}
		if below[k] < 0.86 || below[k] > 0.97 {
			t.Errorf("%s: %.3f lie below the p90", name, below[k])
		}
	}
}

// TestFitHoldsUnderGrowingLoad learns from short queues and judges at long ones.
func TestFitHoldsUnderGrowingLoad(t *testing.T) {
	slower := func(l feature.Load) (float64, float64) { return 0.5, 0.3 }
	b := fitted(t, world(t, 3, 1500, func(i int) float64 { return 2 + 10*float64(i)/1500 }, slower))
	beyond := world(t, 4, 1000, func(int) float64 { return 80 }, slower)
	if off, _ := miss(forecasts(t, b, beyond), beyond); off[0] > 0.1 || off[1] > 0.1 {
		t.Errorf("off by %.3f, want 0.1; noise alone is %.3f", off, floor)
	}
}

// TestWhereThePriorIsAllThereIsNothingIsLost: labels that no vector tells.
func TestWhereThePriorIsAllThereIsNothingIsLost(t *testing.T) {
	right := func(feature.Load) (float64, float64) { return 0, 0 }
	b := fitted(t, world(t, 5, 1000, steady, right))
	later := world(t, 6, 1000, steady, right)
	if off, _ := miss(forecasts(t, b, later), later); off[0] > 1.05*floor || off[1] > 1.05*floor {
		t.Errorf("off by %.4f, with the prior alone %.4f", off, floor)
	}
}

// TestAForecastNeverFallsWithLoad compares random pairs of which the second has
// no less of anything that slows, its analytic prior computed anew. Half of
// them go beyond what was seen.
func TestAForecastNeverFallsWithLoad(t *testing.T) {
	b := fitted(t, world(t, 7, 1200, steady, func(l feature.Load) (float64, float64) {
		return 0.5 - 0.05*l.Scraped.Waiting, 0.4 - 0.6*l.Scraped.KVUsed // falls with load, which no forecast may follow
	}))
	e, err := b.Evaluator()
	if err != nil {
		t.Fatal(err)
	}
	c := coefficients(t)
	rng := rand.New(rand.NewPCG(8, 1))
	out := make([]feature.Forecast, 2)
	outside := 0
	for range 20_000 {
		r, l := state(rng, 10)
		l.Scraped.Running = feature.Unknown // else requests could be somebody else's
		r2, l2 := r, l
		by := func(x float64) float64 { return x * float64(rng.IntN(2)) * math.Exp(4*rng.Float64()) * rng.Float64() }
		r2.PromptTokens += by(1000)
		r2.CachedTokens *= rng.Float64()
		l2.Scraped.Waiting += by(3)
		l2.Scraped.KVUsed = min(1, l2.Scraped.KVUsed+by(0.1))
		l2.Ledger.Requests += by(5)
		l2.Ledger.Decoding += by(5)
		l2.Ledger.PrefillTokens += by(3000)
		l2.Ledger.ContextTokens += by(5000)
		l2.Profile.SpeedFactor *= 1 + by(0.1)
		l2.Profile.PeakPrefillThroughput /= 1 + by(0.1)
		e.Evaluate([]feature.Vector{feature.Of(r, l, physics.Estimate(c, r, l)), feature.Of(r2, l2, physics.Estimate(c, r2, l2))}, out)
		if out[1].Support < 1 {
			outside++
		}
		for _, x := range [][2]feature.Seconds{
			{out[0].TTFT.P50, out[1].TTFT.P50}, {out[0].TTFT.P90, out[1].TTFT.P90}, {out[0].TPOT.P50, out[1].TPOT.P50}, {out[0].TPOT.P90, out[1].TPOT.P90},
			{out[1].TTFT.P50, out[1].TTFT.P90}, {out[1].TPOT.P50, out[1].TPOT.P90},
		} {
			if float64(x[1]) < float64(x[0])*(1-1e-12) {
				t.Fatalf("from %+v %+v to %+v %+v the forecast went from %+v to %+v", r, l, r2, l2, out[0], out[1])
			}
		}
	}
	if outside < 8_000 {
		t.Errorf("%d of 20,000 pairs lie beyond what was seen", outside)
	}
}

func TestAForestIsHeldShort(t *testing.T) {
	b := fitted(t, world(t, 9, 1200, steady, crooked))
	for i, h := range b.Heads {
		if h.Low < -0.25 || h.High > 0.25 {
			t.Errorf("%s may say %v to %v, though no growing load has proven more than 0.25", bundle.Target(i), h.Low, h.High)
		}
	}
}

func TestFitOfBadTasks(t *testing.T) {
	if _, err := learn.Fit(t.Context(), learn.Task{LLM: "qwen", At: began, Learned: all}, quick()); !errors.Is(err, learn.ErrUnfitted) {
		t.Errorf("no samples: %v", err)
	}
	samples := world(t, 10, 200, steady, crooked)
	lost := errors.New("the lease is lost")
	task := learn.Task{LLM: "qwen", At: began, Samples: samples, Learned: all, BeforeHead: func(context.Context) error { return lost }}
	if _, err := learn.Fit(t.Context(), task, quick()); !errors.Is(err, lost) || errors.Is(err, learn.ErrUnfitted) {
		t.Errorf("a lost lease: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	task.BeforeHead = nil
	if _, err := learn.Fit(ended, task, quick()); !errors.Is(err, context.Canceled) || errors.Is(err, learn.ErrUnfitted) {
		t.Errorf("an ended context: %v", err)
	}
}

// TestFewSamplesStillMakeABundle: what they cannot decide stays the prior's.
func TestFewSamplesStillMakeABundle(t *testing.T) {
	for _, n := range []int{1, 4, 30, 60} {
		samples := world(t, 11, n, steady, crooked)
		b := fitted(t, samples)
		if out := forecasts(t, b, samples); !out[0].Known() {
			t.Errorf("%d samples: no forecast", n)
		}
	}
}
