package main

import (
	"io"
	"math"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/internal/bench"
)

func TestMain(m *testing.M) { featurestoretest.Main(m) }

// A few seconds of what `make soak` does for long.
func TestShortSoak(t *testing.T) {
	o := defaults()
	o.lasting, o.round, o.endpoints, o.clients = 4*time.Second, 1500*time.Millisecond, 4, 8
	got, err := rounds(t.Context(), t.Output(), o, featurestoretest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range got.counts() {
		if !b.Holds() {
			t.Error(b)
		}
	}
	var all traffic
	spooled := 0
	for _, r := range got.Rounds {
		all.add(r.Traffic)
		spooled += r.Spooled
	}
	if all.Whole == 0 || all.Left == 0 || all.Refused == 0 || got.Rounds[len(got.Rounds)-1].Decisions < int64(all.Whole) {
		t.Errorf("too little happened: %+v", got.Rounds)
	}
	got.print(io.Discard)
}

func TestGrowth(t *testing.T) {
	for _, test := range []struct {
		y    []float64
		want float64
	}{
		{nil, 0},
		{[]float64{5}, 0},
		{[]float64{0, 0}, 0},
		{[]float64{7, 7, 7, 7}, 0},
		{[]float64{9, 10, 11}, 0.2},
		{[]float64{11, 10, 9}, -0.2},
		{[]float64{10, 12, 10, 12, 10, 12, 10}, 0},
	} {
		if got := growth(test.y); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("growth of %v is %v, want %v", test.y, got, test.want)
		}
	}
}

// Whatever is left over or lost, in any round, is short.
func TestCounts(t *testing.T) {
	well := round{Decisions: 10, Goroutines: 5}
	if short := shorts((&tally{Rounds: []round{well, well}}).counts()); short != 0 {
		t.Errorf("all is well, and %d are short", short)
	}
	bad := round{InFlight: 1, Prefill: 1, Engines: 1, Missing: 1, Unended: 1, Stray: 1, Unknown: 1, Lost: 1, Traffic: traffic{Halved: 1}}
	all := (&tally{Rounds: []round{well, bad, well}, Left: 1}).counts()
	if short := shorts(all); short != len(all) {
		t.Errorf("%d of %d are short", short, len(all))
	}
}

func shorts(bars []bench.Bar) (n int) {
	for _, b := range bars {
		if !b.Holds() {
			n++
		}
	}
	return n
}
