package workload_test

import (
	"math"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/workload"
)

// A rising plan has each of its loads in its own time, and says the same as a
// steady one until the first has passed.
func TestRising(t *testing.T) {
	s, err := workload.Named("mixed")
	if err != nil {
		t.Fatal(err)
	}
	const each = 40 * time.Minute
	plan := s.Rising(3, []float64{2, 8}, each)
	if len(plan.Stages) != 2 || plan.Stages[0] != (workload.Stage{Load: 2, From: s.Warmup, To: each}) || plan.Stages[1] != (workload.Stage{Load: 8, From: each, To: 2 * each}) {
		t.Errorf("stages %+v", plan.Stages)
	}
	s.Duration = each
	var steady []workload.Session
	for x := range s.Sessions(3, 2).Sessions {
		steady = append(steady, x)
	}
	var requests [2]float64
	n := 0
	for x := range plan.Sessions {
		requests[x.At/each] += float64(len(x.Turns))
		if n < len(steady) && (x.At != steady[n].At || x.Class != steady[n].Class) {
			t.Fatalf("session %d comes at %v, %v in a steady plan", n, x.At, steady[n].At)
		}
		n++
	}
	for i, want := range []float64{2, 8} {
		if got := requests[i] / each.Seconds(); math.Abs(got/want-1) > 0.05 {
			t.Errorf("load %v: %.2f requests/s", want, got)
		}
	}
	s.Closed = true
	for range s.Rising(3, []float64{2}, each).Sessions {
		t.Fatal("a closed loop rises")
	}
}
