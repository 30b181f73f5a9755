package drift_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer/drift"
)

func moved(d *drift.Detector, x float64) bool {
	_, moved := d.Add(time.Time{}, x)
	return moved
}

// TestAWorkedExample: values that alternate around 0 by 0.1, and then around
// 0.52. Each of the latter adds 0.52 - 0.12 = 0.4 to a sum that alarms above
// 16: the 41st does, or one earlier or later for the first value's sign.
func TestAWorkedExample(t *testing.T) {
	for _, sign := range []float64{1, -1} {
		d := drift.Residuals()
		swing := func(i int) float64 { return 0.1 - 0.2*float64(i%2) }
		for i := range 1000 {
			if moved(&d, swing(i)) {
				t.Fatalf("value %d alarms, though nothing moved", i)
			}
		}
		at := 0
		for i := 0; at == 0 && i < 100; i++ {
			if moved(&d, sign*0.52+swing(i)) {
				at = i + 1
			}
		}
		if at < 40 || at > 42 {
			t.Errorf("a move by %v was told after %d values, want 41", sign*0.52, at)
		}
		// What was told is the new normal.
		for i := range 1000 {
			if moved(&d, sign*0.52+swing(i)) {
				t.Fatalf("value %d after the alarm alarms again", i)
			}
		}
	}
}

func TestASmallMoveIsLetPass(t *testing.T) {
	d := drift.Residuals()
	for i := range 100_000 {
		x := 0.0
		if i > 500 {
			x = 0.11
		}
		if moved(&d, x) {
			t.Fatalf("a move by 0.11 alarms at value %d", i)
		}
	}
}

func TestUnknownValuesAndOutliersAreNoMove(t *testing.T) {
	d := drift.Residuals()
	for i := range 20_000 {
		x := 0.0
		switch {
		case i%50 == 0:
			x = 1000
		case i%50 == 25:
			x = math.Inf(-1)
		case i%3 == 0:
			x = math.NaN()
		}
		if moved(&d, x) {
			t.Fatalf("alarm at value %d", i)
		}
	}
}

// noise is a series with mean 0.
type noise struct {
	name string
	of   func(*rand.Rand) func() float64
}

func normal(spread, correlation float64) func(*rand.Rand) func() float64 {
	return func(rng *rand.Rand) func() float64 {
		x := spread * rng.NormFloat64()
		return func() float64 {
			x = correlation*x + math.Sqrt(1-correlation*correlation)*spread*rng.NormFloat64()
			return x
		}
	}
}

var noises = []noise{
	{"quiet", normal(0.1, 0)},
	{"ordinary", normal(0.3, 0)},
	{"noisy", normal(0.5, 0)},
	{"skewed", func(rng *rand.Rand) func() float64 { return func() float64 { return 0.4 * (rng.ExpFloat64() - 1) } }},
	{"outliers", func(rng *rand.Rand) func() float64 {
		return func() float64 {
			if rng.IntN(50) == 0 {
				return 10 * rng.NormFloat64()
			}
			return 0.3 * rng.NormFloat64()
		}
	}},
	{"correlated", normal(0.3, 0.5)},
}

// harder are series that tell less: alarms stay as seldom, at the price of
// slowness.
var harder = []noise{
	{"very noisy", normal(1, 0)},
	{"strongly correlated", normal(0.4, 0.7)},
}

// TestFalseAlarmsAreSeldom: at most 1 in 10,000 stationary outcomes.
func TestFalseAlarmsAreSeldom(t *testing.T) {
	for _, n := range append(noises, harder...) {
		rng := rand.New(rand.NewPCG(1, 1))
		const series, values = 30, 20_000
		alarms := 0
		for range series {
			d, next := drift.Residuals(), n.of(rng)
			for range values {
				if moved(&d, next()) {
					alarms++
				}
			}
		}
		if most := series * values / 10_000; alarms > most {
			t.Errorf("%s: %d alarms in %d values, want at most %d", n.name, alarms, series*values, most)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	alarms := 0
	d := drift.Misses()
	for range 600_000 {
		if moved(&d, bernoulli(rng, 0.1)) {
			alarms++
		}
	}
	if alarms > 60 {
		t.Errorf("coverage: %d alarms in 600,000 outcomes, want at most 60", alarms)
	}
}

func bernoulli(rng *rand.Rand, p float64) float64 {
	if rng.Float64() < p {
		return 1
	}
	return 0
}

// TestAMoveIsToldWithin300: by 1.3 up or down, and coverage that falls from 90
// to 75 %, in at least 95 of 100 series.
func TestAMoveIsToldWithin300(t *testing.T) {
	const series, within = 400, 300
	told := func(d drift.Detector, before, after func() float64) bool {
		for range 500 {
			moved(&d, before())
		}
		for range within {
			if moved(&d, after()) {
				return true
			}
		}
		return false
	}
	for _, n := range noises {
		rng := rand.New(rand.NewPCG(2, 1))
		found := 0
		for i := range series {
			next, move := n.of(rng), math.Log(1.3)
			if i%2 == 1 {
				move = -move
			}
			if told(drift.Residuals(), next, func() float64 { return next() + move }) {
				found++
			}
		}
		if found < series*95/100 {
			t.Errorf("%s: %d of %d moves were told within %d values", n.name, found, series, within)
		}
	}
	rng := rand.New(rand.NewPCG(2, 2))
	found := 0
	for range series {
		if told(drift.Misses(), func() float64 { return bernoulli(rng, 0.1) }, func() float64 { return bernoulli(rng, 0.25) }) {
			found++
		}
	}
	if found < series*95/100 {
		t.Errorf("coverage: %d of %d falls were told within %d outcomes", found, series, within)
	}
}

// TestAMoveIsDated: of 400 moves by 1.3 the middle half are dated within 25 values
// of where they were.
func TestAMoveIsDated(t *testing.T) {
	const series, before = 400, 500
	for _, n := range noises {
		rng := rand.New(rand.NewPCG(3, 1))
		var off []int64
		for range series {
			d, next := drift.Residuals(), n.of(rng)
			for i := range before + 300 {
				x := next()
				if i >= before {
					x += math.Log(1.3)
				}
				if since, moved := d.Add(time.Unix(int64(i), 0), x); moved {
					off = append(off, since.Unix()-before)
					break
				}
			}
		}
		slices.Sort(off)
		if low, high := off[len(off)/4], off[3*len(off)/4]; low < -25 || high > 25 {
			t.Errorf("%s: half of the moves are dated %d to %d values late", n.name, low, high)
		}
	}
}

func TestAWatchSaysWhatMoved(t *testing.T) {
	f := feature.Forecast{TTFT: feature.Quantiles{P50: 1, P90: 1.5}, TPOT: feature.Quantiles{P50: 0.02, P90: 0.03}}
	unknown := feature.Seconds(feature.Unknown)
	for _, c := range []struct {
		want       drift.Signal
		ttft, tpot func(i int) feature.Seconds
	}{
		{drift.TTFTResidual, func(int) feature.Seconds { return 1.4 }, func(int) feature.Seconds { return 0.02 }},
		{drift.TPOTResidual, func(int) feature.Seconds { return unknown }, func(int) feature.Seconds { return 0.015 }},
		{drift.TTFTCoverage, func(i int) feature.Seconds { return 1 + feature.Seconds(i%2)*0.51*feature.Seconds((i/2)%2) }, func(int) feature.Seconds { return 0.02 }},
		{drift.TPOTCoverage, func(int) feature.Seconds { return 1 }, func(i int) feature.Seconds { return 0.02 + 0.0101*feature.Seconds(i%2)*feature.Seconds((i/2)%2) }},
	} {
		w := drift.NewWatch()
		for i := range 500 {
			if s, _, moved := w.Observe(time.Time{}, f, 1, 0.02); moved {
				t.Fatalf("%s at outcome %d, though nothing moved", s, i)
			}
		}
		var got drift.Signal
		for i := range 300 {
			if s, since, moved := w.Observe(time.Unix(int64(i), 0), f, c.ttft(i), c.tpot(i)); moved {
				if from := since.Unix(); from < 0 || from > 4 {
					t.Errorf("%s moved since outcome %d, want the first ones", s, from)
				}
				got = s
				break
			}
		}
		if got != c.want {
			t.Errorf("told %q, want %q", got, c.want)
		}
	}
}

func TestAnObservationAllocatesNothing(t *testing.T) {
	w := drift.NewWatch()
	f := feature.Forecast{TTFT: feature.Quantiles{P50: 1, P90: 1.5}, TPOT: feature.Quantiles{P50: 0.02, P90: 0.03}}
	if n := testing.AllocsPerRun(1000, func() { w.Observe(time.Time{}, f, 1, 0.02) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
