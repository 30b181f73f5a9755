package correction_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
)

func TestOffsetLearnsWhatRemains(t *testing.T) {
	var o correction.Offset
	for range 200 {
		o.Observe(forecast(1, 0.02), 1.2, 0.02)
		o.Observe(forecast(1, 0.02), feature.Seconds(math.NaN()), -1)
	}
	if got, want := o.TTFT(1), math.Log(1.2); math.Abs(got-want) > 0.01 {
		t.Errorf("offset is %.3f, want about %.3f", got, want)
	}
	if got := o.TPOT(0.02); math.Abs(got) > 1e-9 {
		t.Errorf("TPOT was right, yet its offset is %v", got)
	}
	for range 500 {
		o.Observe(forecast(1, 1), 1000, 1)
	}
	if o.TTFT(1) > 1 {
		t.Errorf("offset %v is past its bound", o.TTFT(1))
	}
	if got := o.TTFT(feature.Seconds(feature.Unknown)); got != 0 {
		t.Errorf("an unknown forecast is corrected by %v", got)
	}
}

// What is added to every TTFT is told from what takes longer in proportion,
// though one in five outcomes is far off.
func TestOffsetTellsASlowEndpointFromADistantOne(t *testing.T) {
	for _, c := range []struct{ scale, extra float64 }{{1, 0.06}, {1.25, 0}, {0.9, 0.03}} {
		forecasts := []float64{0.15, 0.4, 2}
		var means [3]float64
		const runs = 20
		for seed := range uint64(runs) {
			rng := rand.New(rand.NewPCG(seed, 2))
			var o correction.Offset
			for i := range 400 {
				f := 0.04 * math.Exp(4*rng.Float64())
				actual := (c.scale*f + c.extra) * math.Exp(0.05*rng.NormFloat64())
				if i%5 == 0 {
					actual *= 10
				}
				o.Observe(forecast(feature.Seconds(f), 1), feature.Seconds(actual), 1)
			}
			for k, f := range forecasts {
				means[k] += o.TTFT(feature.Seconds(f)) / runs
			}
		}
		for k, f := range forecasts {
			if want := math.Log(c.scale + c.extra/f); math.Abs(means[k]-want) > 0.05 {
				t.Errorf("times %v and %v s more: forecasts of %v s are corrected by %.3f in the mean, want about %.3f", c.scale, c.extra, f, means[k], want)
			}
		}
	}
}

// Whatever was observed, a longer forecast stays the longer one, and none is
// moved by more than 1 in log.
func TestOffsetKeepsTheOrderOfForecasts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o correction.Offset
		latency := rapid.Float64Range(1e-4, 100)
		for range rapid.IntRange(0, 100).Draw(t, "outcomes") {
			o.Observe(forecast(feature.Seconds(latency.Draw(t, "forecast")), 1), feature.Seconds(latency.Draw(t, "actual")), 1)
		}
		a := latency.Draw(t, "shorter")
		b := a * rapid.Float64Range(1, 10).Draw(t, "times")
		x, y := o.TTFT(feature.Seconds(a)), o.TTFT(feature.Seconds(b))
		if math.Abs(x) > 1+1e-12 || math.Abs(y) > 1+1e-12 {
			t.Fatalf("corrected by %v and %v", x, y)
		}
		if a*math.Exp(x) > b*math.Exp(y)*(1+1e-9) {
			t.Fatalf("%v becomes %v, %v becomes %v", a, a*math.Exp(x), b, b*math.Exp(y))
		}
	})
}

// An endpoint's bias is gone within some dozens of outcomes.
func TestOffsetIsSoonRight(t *testing.T) {
	var o correction.Offset
	for range 20 {
		o.Observe(forecast(1, 1), 1.5, 0.7)
	}
	if ttft, tpot := o.TTFT(1), o.TPOT(1); math.Abs(ttft-math.Log(1.5)) > 0.05 || math.Abs(tpot-math.Log(0.7)) > 0.05 {
		t.Errorf("after 20 outcomes of 1.5 and 0.7 times: %v and %v", ttft, tpot)
	}
}

func TestObservingDoesNotAllocate(t *testing.T) {
	var o correction.Offset
	var c correction.Coverage
	if n := testing.AllocsPerRun(100, func() {
		f := forecast(1, 1)
		o.Observe(f, 1.1, 0.9)
		c.Observe(&correction.Said{Plain: f, Corrected: f, Load: 3}, 1.1, 0.9)
		correction.Correct(&o, &c, f, 3)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Nine in ten stay below the p90 in every band of load, also where the errors of
// one are much larger than those of the others.
func TestCoverageSettlesInEveryBand(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var c correction.Coverage
	loads := []float64{0, 3, 40}
	var covered, total [3]float64
	for i := range 60_000 {
		k := rng.IntN(3)
		actual := feature.Seconds(math.Exp([]float64{0.05, 0.3, 0.8}[k] * rng.NormFloat64()))
		plain := forecast(1, 1)
		f := plain
		f.TTFT.P90 *= feature.Seconds(math.Exp(c.TTFT(loads[k])))
		if i > 10_000 {
			total[k]++
			if actual <= f.TTFT.P90 {
				covered[k]++
			}
		}
		c.Observe(&correction.Said{Plain: plain, Corrected: f, Load: loads[k]}, actual, actual)
	}
	for k, load := range loads {
		if share := covered[k] / total[k]; share < 0.89 || share > 0.91 {
			t.Errorf("under load %v the p90 covers %.3f", load, share)
		}
	}
}

func TestLoadOf(t *testing.T) {
	l := feature.Load{Ledger: feature.Ledger{Requests: 5}, Scraped: feature.Scraped{Waiting: feature.Unknown, Running: 9}}
	if got := correction.LoadOf(&l); got != 5 {
		t.Errorf("never scraped: %v", got)
	}
	l.Scraped.Waiting = 2
	if got := correction.LoadOf(&l); got != 11 {
		t.Errorf("others send there too: %v", got)
	}
}
