package correction_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
)

// stream is one stream of an engine that steps every 20 ms.
type stream struct {
	mark   correction.Mark
	events int64
	last   time.Time
}

// A minute of an engine whose steps take as long as they should, seen by
// streams that come and go, in whatever order they are shown: the factor is 1.
func TestClockCountsSteps(t *testing.T) {
	const step = 20 * time.Millisecond
	factors := map[float64]bool{}
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 1)) // the order alone
		var c correction.Clock
		var s correction.Speed
		live := map[int]*stream{}
		now := start
		for n := range 3000 {
			now = now.Add(step)
			if n%40 == 0 {
				c.Prefilled(now, 0)
				x := &stream{events: 1, last: now}
				x.mark.Begin(now)
				live[n] = x
				delete(live, n-400)
			}
			for _, x := range live {
				if x.last.Before(now) {
					x.events++
					x.last = now
				}
			}
			if n%50 != 49 {
				continue
			}
			names := rng.Perm(3000)
			for _, name := range names {
				if x := live[name]; x != nil {
					c.Stream(&x.mark, x.events, x.last)
				}
			}
			c.Tick(now, step.Seconds(), &s)
		}
		if f := s.Factor(now); math.Abs(f-1) > 1e-9 {
			t.Errorf("the factor is %v", f)
		}
		factors[s.Factor(now)] = true
	}
	if len(factors) != 1 {
		t.Errorf("orders of streams give the factors %v", factors)
	}
}

// A prefill stretches the steps of those that decode beside it: what the step
// model gives for it is expected too, when it fell into the time.
func TestClockExpectsPrefills(t *testing.T) {
	tick := func(prefillAt time.Duration) float64 {
		var c correction.Clock
		var s correction.Speed
		var m correction.Mark
		m.Begin(start)
		c.Prefilled(start.Add(prefillAt), 50)
		c.Stream(&m, 101, start.Add(100*time.Second)) // 100 events
		c.Tick(start.Add(100*time.Second), 0.5, &s)
		return s.Factor(start.Add(100 * time.Second))
	}
	if f := tick(30 * time.Second); math.Abs(f-1) > 1e-9 { // 100 x 0.5 s + 50 s
		t.Errorf("with a prefill inside the factor is %v", f)
	}
	if f := tick(-time.Second); math.Abs(f-110.0/60) > 1e-9 {
		t.Errorf("with a prefill before the factor is %v", f)
	}
}

func TestClockWithoutStreamsIsNoEvidence(t *testing.T) {
	var c correction.Clock
	var s correction.Speed
	var m correction.Mark
	c.Stream(&m, 5, start) // begun without being seen to begin
	if c.Streaming() {
		t.Error("a stream counts from before it was marked")
	}
	c.Tick(start, 0.02, &s)
	c.Stream(&m, 5, start)
	if c.Streaming() {
		t.Error("a stream that had no events streams")
	}
	if c.Tick(start.Add(time.Second), 0.02, &s); s.Factor(start.Add(time.Second)) != 1 {
		t.Errorf("the factor is %v", s.Factor(start.Add(time.Second)))
	}
}

func TestOutputExpectsWhatItSaw(t *testing.T) {
	var o correction.Output
	none := feature.Unknown
	if got := o.Expect(1000, none); got != correction.ColdOutput {
		t.Errorf("before anything it expects %v", got)
	}
	for range 500 {
		o.Observe(1000, 200)
		o.Observe(50_000, 900)
		o.Observe(1000, feature.Unknown)
		o.Observe(1000, math.Inf(1))
		o.Observe(1000, -1)
	}
	for _, c := range []struct{ prompt, limit, want float64 }{
		{1000, none, 200}, {600, none, 200}, {50_000, none, 900}, // the same power of two
		{2500, none, 200}, {30_000, none, 900}, {10, none, 200}, // the nearest one
		{1000, 150, 150}, {1000, 0, 1}, {-5, none, 200}, {1e18, none, 900},
	} {
		if got := o.Expect(c.prompt, c.limit); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("of a prompt of %v with a limit of %v it expects %v, want %v", c.prompt, c.limit, got, c.want)
		}
	}
}

func TestDemandFindsWhatBinds(t *testing.T) {
	d := correction.NewDemand(start)
	now := start
	const peak = 1000.0
	run := func(seconds int, perSecond float64) correction.Bound {
		for range seconds {
			now = now.Add(time.Second)
			d.Add(now, perSecond)
		}
		return d.Bound(now, peak)
	}
	for _, c := range []struct {
		seconds   int
		perSecond float64
		want      correction.Bound
	}{
		{9, 900, correction.Unsettled},
		{1, 900, correction.PrefillBound}, // of ten seconds, not of a minute
		{60, 410, correction.PrefillBound},
		{60, 350, correction.PrefillBound}, // within the hysteresis
		{60, 300, correction.DecodeBound},
		{60, 450, correction.DecodeBound},
		{60, 500, correction.PrefillBound},
		{0, 0, correction.PrefillBound},
	} {
		if got := run(c.seconds, c.perSecond); got != c.want || d.Last() != c.want {
			t.Errorf("after %d s of %v tokens/s of %v: %v, then %v, want %v", c.seconds, c.perSecond, peak, got, d.Last(), c.want)
		}
	}
	if got := d.Bound(now.Add(time.Hour), peak); got != correction.DecodeBound {
		t.Errorf("an hour without traffic gives %v", got)
	}
	if got := d.Bound(now, 0); got != correction.Unsettled {
		t.Errorf("without a throughput: %v", got)
	}
}

func TestPlainTakesTheCorrectionOut(t *testing.T) {
	var o correction.Offset
	var c correction.Coverage
	for range 50 {
		o.Observe(forecast(1, 0.02), 1.3, 0.03)
		c.Observe(&correction.Said{Plain: forecast(1, 0.02), Corrected: forecast(1, 0.02), Load: 9}, 3, 0.01)
	}
	r := correction.Correct(&o, &c, forecast(1, 0.02), 9)
	if r.TTFT.P50 != o.TTFT(1) || r.TPOT.P90 != o.TPOT(0.02)+c.TPOT(9) {
		t.Errorf("the correction is %+v", r)
	}
	f := forecast(1, 0.02)
	corrected := f
	corrected.TTFT.P50 *= feature.Seconds(math.Exp(r.TTFT.P50))
	corrected.TTFT.P90 *= feature.Seconds(math.Exp(r.TTFT.P90))
	corrected.TPOT.P50 *= feature.Seconds(math.Exp(r.TPOT.P50))
	corrected.TPOT.P90 *= feature.Seconds(math.Exp(r.TPOT.P90))
	back := correction.Plain(corrected, r)
	for i, x := range [][2]feature.Seconds{{back.TTFT.P50, f.TTFT.P50}, {back.TTFT.P90, f.TTFT.P90}, {back.TPOT.P50, f.TPOT.P50}, {back.TPOT.P90, f.TPOT.P90}} {
		if math.Abs(float64(x[0]/x[1])-1) > 1e-12 {
			t.Errorf("quantile %d came back as %v, was %v", i, x[0], x[1])
		}
	}
	if correction.Plain(feature.NoForecast, r).Known() {
		t.Error("no forecast became one")
	}
}

// Steps count what is behind the factor, and fade as it does.
func TestStepsAreCounted(t *testing.T) {
	var c correction.Clock
	var s correction.Speed
	var m correction.Mark
	if n := s.Steps(start); n != 0 {
		t.Errorf("%v steps of an endpoint that nothing is known of", n)
	}
	m.Begin(start)
	c.Stream(&m, 101, start.Add(2*time.Second))
	c.Tick(start.Add(2*time.Second), 0.02, &s)
	for after, want := range map[time.Duration]float64{0: 100, 30 * time.Second: 100 / math.E} {
		if n := s.Steps(start.Add(2*time.Second + after)); math.Abs(n-want) > 1e-9 {
			t.Errorf("%v steps after %v, want %v", n, after, want)
		}
	}
}
