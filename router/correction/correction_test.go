package correction_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestSpeedFindsASlowEndpointAndForgetsIt(t *testing.T) {
	var s correction.Speed
	if f := s.Factor(start); f != 1 {
		t.Errorf("an unknown endpoint has speed factor %v", f)
	}
	now := start
	for range 120 {
		now = now.Add(time.Second)
		s.Observe(now, 1, 0.5) // everything takes twice as long
	}
	if f := s.Factor(now); f < 1.5 || f > 2 {
		t.Errorf("after two minutes at half speed the factor is %.2f", f)
	}
	if f := s.Factor(now.Add(10 * time.Minute)); math.Abs(f-1) > 0.01 {
		t.Errorf("ten minutes without streams leave %.3f", f)
	}
}

func TestSpeedIsBoundedAndIgnoresNonsense(t *testing.T) {
	var s correction.Speed
	now := start
	for range 1000 {
		now = now.Add(time.Second)
		s.Observe(now, 1000, 1e-6)
		s.Observe(now, math.NaN(), 1)
		s.Observe(now, 1, math.Inf(1))
		s.Observe(now, -1, 1)
	}
	if f := s.Factor(now); f != 7 {
		t.Errorf("factor is %v, want the bound 7", f)
	}
}

func forecast(ttft, tpot feature.Seconds) feature.Forecast {
	return feature.Forecast{TTFT: feature.Quantiles{P50: ttft, P90: 2 * ttft}, TPOT: feature.Quantiles{P50: tpot, P90: 2 * tpot}}
}

func limits() correction.Limits {
	l := correction.DefaultLimits()
	l.ReturnHold = 10 * time.Second
	return l
}

// well tells m that all is well until now reaches the given second.
func well(m *correction.Machine, from, to int) (changes []correction.Change) {
	for s := from; s <= to; s++ {
		now := start.Add(time.Duration(s) * time.Second)
		if c, moved := m.Answered(now, now, time.Hour); moved {
			changes = append(changes, c)
		}
	}
	return changes
}

func TestFirstBundleEndsColdAtOnce(t *testing.T) {
	m := correction.NewMachine(limits(), start)
	if s, _, _ := m.State(); s != correction.Cold {
		t.Fatalf("a new machine is %s", s)
	}
	if _, moved := m.Failed(start, correction.Broken, "gone"); moved {
		t.Error("a failure moved a cold machine")
	}
	if _, moved := m.Failed(start, correction.Untrained, "none"); moved {
		t.Error("no bundle moved a cold machine")
	}
	c, moved := m.Answered(start, start, time.Hour)
	if !moved || c.From != correction.Cold || c.To != correction.Live {
		t.Errorf("the first bundle gave %+v, %v", c, moved)
	}
}

func TestLeavingIsAtOnceReturningIsHeld(t *testing.T) {
	for _, trouble := range []struct {
		result correction.Result
		want   correction.State
	}{
		{correction.Broken, correction.Down},
		{correction.Mismatch, correction.Stale},
		{correction.Untrained, correction.Stale},
		{correction.Invalid, correction.Wrong},
	} {
		m := correction.NewMachine(limits(), start)
		well(m, 0, 1)
		c, moved := m.Failed(start.Add(2*time.Second), trouble.result, "it broke")
		if !moved || c.To != trouble.want || c.Reason != "it broke" {
			t.Fatalf("%v gave %+v, %v", trouble.result, c, moved)
		}
		if changes := well(m, 3, 12); len(changes) != 0 {
			t.Fatalf("%s: returned before the hold: %+v", trouble.want, changes)
		}
		// Trouble in the hold starts it again.
		m.Failed(start.Add(12*time.Second), trouble.result, "again")
		if changes := well(m, 13, 22); len(changes) != 0 {
			t.Fatalf("%s: returned although it failed within the hold: %+v", trouble.want, changes)
		}
		if changes := well(m, 23, 23); len(changes) != 1 || changes[0].To != correction.Live {
			t.Fatalf("%s: after the hold %+v", trouble.want, changes)
		}
	}
}

func TestOneLateForecastIsNotSlow(t *testing.T) {
	m := correction.NewMachine(limits(), start)
	for i := range 100 {
		m.Answered(start.Add(time.Duration(i)*10*time.Millisecond), start, time.Hour)
	}
	late := func(i int) bool {
		_, moved := m.Failed(start.Add(time.Second+time.Duration(i)*time.Millisecond), correction.Late, "late")
		return moved
	}
	if late(1) || late(2) {
		t.Error("two late forecasts made it slow")
	}
	if !late(3) {
		t.Error("3 of 102 late forecasts did not make it slow")
	}
	_, reason, _ := m.State()
	if !strings.Contains(reason, "3 of 102") {
		t.Errorf("reason is %q", reason)
	}
	if changes := well(m, 2, 10); len(changes) != 0 {
		t.Errorf("returned while the window still held the late ones: %+v", changes)
	}
	if changes := well(m, 11, 30); len(changes) != 1 || changes[0].To != correction.Live {
		t.Errorf("half a minute well gave %+v", changes)
	}
}

func TestBundlesGrowStale(t *testing.T) {
	m := correction.NewMachine(limits(), start)
	m.Answered(start, start, time.Minute)
	if _, moved := m.Tick(start.Add(time.Minute)); moved {
		t.Error("stale before its time")
	}
	c, moved := m.Tick(start.Add(61 * time.Second))
	if !moved || c.To != correction.Stale {
		t.Fatalf("an old bundle gave %+v, %v", c, moved)
	}
	if c, moved := m.Answered(start.Add(62*time.Second), start, time.Minute); moved {
		t.Errorf("the same old bundle gave %+v", c)
	}
	now := start.Add(70 * time.Second)
	m.Answered(now, now, time.Minute)
	if c, moved := m.Answered(now.Add(10*time.Second), now, time.Minute); !moved || c.To != correction.Live {
		t.Errorf("a validated bundle gave %+v, %v after the hold", c, moved)
	}
}
