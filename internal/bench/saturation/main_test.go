package main

import (
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/bench/trial"
	"github.com/spillway-llm/spillway/internal/evaluate"
)

// TestTheNumberTellsHalfOfTheKneeFromBeyond on a minute of single requests.
func TestTheNumberTellsHalfOfTheKneeFromBeyond(t *testing.T) {
	w := trial.Worlds[2]
	w.Before, w.Judged = 20*time.Second, 20*time.Second
	for _, c := range []struct{ share, least, most float64 }{{0.4, 0.3, 0.6}, {1.3, 1, 1.4}} {
		got, err := simulate(t.Context(), w, 1001, c.share)
		if err != nil {
			t.Fatal(err)
		}
		if mean := evaluate.Mean(got.samples); !(mean >= c.least && mean <= c.most) {
			t.Errorf("%g of the knee of %s: %.2f of the fleet's time, want %g to %g", c.share, w.Name, mean, c.least, c.most)
		}
	}
}
