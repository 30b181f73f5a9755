package main

import (
	"slices"
	"testing"

	"github.com/spillway-llm/spillway/internal/bench"
)

func TestQuantiles(t *testing.T) {
	if got, want := quantilesOf([]float64{3, 1, 2, 4}), (quantiles{4, 2, 4, 4}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if none := quantilesOf(nil); none != (quantiles{}) {
		t.Errorf("of nothing: %+v", none)
	}
}

// Whatever is lost makes its own bar short, and no other.
func TestEveryLossIsShort(t *testing.T) {
	good := findings{Restarts: []restart{{Serving: 0.2}, {Serving: 0.2}}, During: quantiles{Requests: 40}, Decisions: 9, Outcomes: 9, Joined: 9}
	for want, spoil := range map[string]func(*findings){
		"":                          func(*findings) {},
		"restarts_taken_over":       func(f *findings) { f.Restarts = []restart{{Serving: 0.2}, {}} },
		"requests_during_restarts":  func(f *findings) { f.During.Requests = 39 },
		"requests_failed":           func(f *findings) { f.Failed = 1 },
		"decisions_lost":            func(f *findings) { f.Lost = 1 },
		"decisions_unlike_requests": func(f *findings) { f.Unlike = 1 },
		"decisions_without_outcome": func(f *findings) { f.Decisions = 10 },
		"outcomes_unlike_decisions": func(f *findings) { f.Outcomes = 8 },
	} {
		f := good
		spoil(&f)
		short := slices.DeleteFunc(f.bars(2), bench.Bar.Holds)
		if want == "" && len(short) > 0 || want != "" && (len(short) != 1 || short[0].Name != want) {
			t.Errorf("%q: short are %v", want, short)
		}
	}
}
