package correction_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
)

// TestOccupancyIsWhatItsSumSays compares it with the sum over all requests.
func TestOccupancyIsWhatItsSumSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type came struct {
			at    time.Time
			takes float64
		}
		var all []came
		var o correction.Occupancy
		now := time.Unix(1_700_000_000, 0)
		if o.Share(now) != 0 {
			t.Fatal("something before the first request")
		}
		for range rapid.IntRange(1, 60).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "after ms")) * time.Millisecond)
			takes := rapid.Float64Range(0, 5).Draw(t, "takes")
			o.Add(now, feature.Seconds(takes))
			all = append(all, came{now, takes})
		}
		now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "later s")) * time.Second)
		sum := 0.0
		for _, c := range all {
			sum += c.takes * math.Exp(-now.Sub(c.at).Minutes())
		}
		seen := max(10*time.Second, now.Sub(all[0].at)).Minutes()
		want := sum / 60 / (1 - math.Exp(-seen))
		if got := o.Share(now); math.Abs(got-want) > 1e-9*(1+want) {
			t.Fatalf("share %v, want %v", got, want)
		}
	})
}

// TestOccupancyOfSteadyArrivals is their rate times what each takes, from the
// first minute on.
func TestOccupancyOfSteadyArrivals(t *testing.T) {
	var o correction.Occupancy
	began := time.Unix(1_700_000_000, 0)
	for i := range 600 {
		now := began.Add(time.Duration(i) * time.Second / 2)
		o.Add(now, 0.3)
		if got := o.Share(now); i > 60 && math.Abs(got-0.6) > 0.02 {
			t.Fatalf("share %.3f after %d s, want 0.6", got, i/2)
		}
	}
}

// TestOccupancyAllocatesNothing: each decision adds to one.
func TestOccupancyAllocatesNothing(t *testing.T) {
	var o correction.Occupancy
	now := time.Unix(1_700_000_000, 0)
	if n := testing.AllocsPerRun(100, func() { now = now.Add(time.Second); o.Add(now, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
