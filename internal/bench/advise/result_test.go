package main

import (
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/advise"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

func TestWinnerIsProven(t *testing.T) {
	for _, c := range []struct {
		mean, low, high float64
		want            string
	}{
		{0.05, 0.01, 0.09, policy.TokenLoad},
		{-0.05, -0.09, -0.01, policy.ActiveRequest},
		{0.05, -0.01, 0.11, unproven},
		{-0.30, -0.70, 0.40, unproven},
		{0.02, 0.01, 0.03, either},
		{-0.029, -0.04, -0.01, either}, // token-load takes 2.99 % longer
	} {
		if got := winner(advise.Change{Mean: c.mean, Low: c.low, High: c.high}); got != c.want {
			t.Errorf("%+v: %s, want %s", c, got, c.want)
		}
	}
}

// TestHalvesAreTheWhole: two parts have all sessions of a plan between them, each
// from its own beginning on.
func TestHalvesAreTheWhole(t *testing.T) {
	spec, err := workload.Named(shifting)
	if err != nil {
		t.Fatal(err)
	}
	all := map[time.Duration]string{}
	whole := spec.Sessions(3, 0.1)
	for s := range whole.Sessions {
		all[s.At] = s.Class
	}
	half := 8 * time.Minute
	for i := range 2 {
		from := time.Duration(i) * half
		index := 0
		for s := range part(spec.Sessions(3, 0.1), from, from+half).Sessions {
			if s.Index != index || s.At < 0 || s.At >= half || all[s.At+from] != s.Class {
				t.Fatalf("session %d of half %d is number %d at %v, of %s", index, i, s.Index, s.At, s.Class)
			}
			delete(all, s.At+from)
			index++
		}
	}
	if len(all) > 0 {
		t.Errorf("%d sessions are in neither half", len(all))
	}
}
