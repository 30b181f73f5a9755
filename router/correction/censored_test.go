package correction_test

import (
	"math"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
)

// An engine stands still: the factor rises while its streams wait, long before
// their next event, and what came of the wait is counted once.
func TestSpeedOfAnEngineThatStandsStill(t *testing.T) {
	const step, longest = 20 * time.Millisecond, 500 * time.Millisecond
	var c correction.Clock
	var s correction.Speed
	var m correction.Mark
	now, last, events := start, start, int64(1)
	m.Begin(now)
	second := func(steps int64) {
		now = now.Add(time.Second)
		if steps > 0 {
			events += steps
			last = now
		}
		c.Stream(&m, events, last)
		c.Stalled(now, longest.Seconds(), &s)
		c.Tick(now, step.Seconds(), &s)
	}
	for range 60 {
		second(50)
	}
	if f := s.Factor(now); math.Abs(f-1) > 0.01 {
		t.Fatalf("before: the factor is %v", f)
	}
	before := 1.0
	for i := range 20 {
		second(0)
		f := s.Factor(now)
		if f < before || i >= 5 && f < 1.05 || i == 19 && f < 1.5 {
			t.Errorf("after %d s of silence the factor is %v, was %v", i+1, f, before)
		}
		before = f
	}
	second(1) // the step that took 21 s
	if f := s.Factor(now); f < before*0.95 || f > before*1.3 {
		t.Errorf("when the step has come the factor is %v, was %v", f, before)
	}
	for range 300 {
		second(50)
	}
	if f := s.Factor(now); math.Abs(f-1) > 0.01 {
		t.Errorf("five minutes later the factor is %v", f)
	}
}

// A wait that a step full of prefill explains says nothing.
func TestSpeedBearsALongStep(t *testing.T) {
	var s correction.Speed
	for _, c := range []struct {
		waited, longest float64
		more            bool
	}{{0.4, 0.5, false}, {5, 0.5, true}, {0, 0.5, false}, {math.Inf(1), 0.5, false}, {5, 0, false}, {math.NaN(), 0.5, false}} {
		s.Waiting(c.waited, c.longest)
		if f := s.Factor(start); (f > 1) != c.more || f < 1 {
			t.Errorf("waiting %v s for a step of at most %v: the factor is %v", c.waited, c.longest, f)
		}
	}
}

// Requests that hang are misses before they end, so the p90 rises while they
// hang; once they have ended, it is by where they came.
func TestAnOverdueRequestIsAMissNow(t *testing.T) {
	var c correction.Coverage
	observe := func(ttft feature.Seconds, overdue bool) {
		f := forecast(1, 1)
		c.Observe(&correction.Said{Plain: f, Corrected: f, Load: 5, Overdue: overdue}, ttft, 1)
	}
	for range 100 {
		observe(1, false)
	}
	before := c.TTFT(5)
	for range 20 {
		c.Overdue(5)
	}
	hanging := c.TTFT(5)
	for range 20 {
		observe(3, true)
	}
	if after := c.TTFT(5); !(before < 0) || hanging < 1 || math.Abs(after-math.Log(1.5)) > 2e-3 {
		t.Errorf("the p90 was moved by %v, by %v while 20 of 120 hang, and by %v when they came at 1.5 times of it", before, hanging, after)
	}
}
