package fleet_test

import (
	"math"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
)

// What an engine has worked, by its coefficients, is the time that it was busy;
// between the ends of a step it grows evenly.
func TestWorkIsTheTimeThatItTook(t *testing.T) {
	p, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		t.Fatal(err)
	}
	p.NoiseStdDev = 0
	e, err := fleet.New(fleet.Config{Profile: p})
	if err != nil {
		t.Fatal(err)
	}
	seconds := func(at time.Duration) float64 {
		w, c := e.Worked(at), p.Coefficients
		return c.A*w.Steps + c.B*w.Prefill + c.C*w.Attended + c.D*w.Decoding + c.E*w.Read
	}
	for i := range 20 {
		if err := e.Submit(0, fleet.NewRequest(uint64(i), fleet.Prompt{Tokens: 300 * (i + 1)}, 50, fleet.Output{Tokens: 2 + i})); err != nil {
			t.Fatal(err)
		}
	}
	last := time.Duration(0)
	for at, ok := e.NextEvent(); ok; at, ok = e.NextEvent() {
		for _, share := range []float64{0, 0.3, 1} {
			when := last + time.Duration(share*float64(at-last))
			if got := seconds(when); math.Abs(got-when.Seconds()) > 1e-6 {
				t.Fatalf("worked %v s until %v", got, when)
			}
		}
		e.Advance(at)
		last = at
	}
}
