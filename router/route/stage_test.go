package route_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

func TestOnlyTheBestByPriorAreAskedAbout(t *testing.T) {
	for _, c := range []struct{ endpoints, candidates, want int }{{3, 16, 3}, {16, 16, 16}, {40, 16, 16}, {40, 5, 5}, {40, 0, 40}} {
		t.Run(fmt.Sprintf("%d of %d", c.candidates, c.endpoints), func(t *testing.T) {
			inLive(t, c.endpoints, func(r *route.Config) { r.ForecastCandidates = c.candidates }, func(t *testing.T, w *world) {
				ticket, err := w.Begin(named("it"), query("x"))
				if err != nil {
					t.Fatal(err)
				}
				if n := len(w.oracle.about("it")); n != c.want {
					t.Errorf("asked about %d endpoints, want %d", n, c.want)
				}
				checkVectors(t, w.memory.decision(ticket), w.oracle.about("it"))
			})
		})
	}
}

func TestWarmEndpointsAreAskedAboutHoweverBusy(t *testing.T) {
	inLive(t, 40, nil, func(t *testing.T, w *world) {
		warm := map[string]bool{}
		for i := range 3 { // e037 to e039 hold the prefix and are the busiest
			who := id(37 + i)
			w.fleet.change(func(e *pool.State) { e.Draining = e.ID != who })
			w.begin(t, query("shared")).End(ended(feature.ClientAbort, 0))
			w.fill(t, who, 50_000)
			warm[who] = true
		}
		w.fleet.change(func(e *pool.State) { e.Draining = false })
		ticket, err := w.Begin(named("it"), query("shared"))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(w.oracle.about("it")); n != 16+3 {
			t.Errorf("asked about %d endpoints, want 16 and the 3 warm ones", n)
		}
		d := w.memory.decision(ticket)
		for _, c := range d.Candidates {
			delete(warm, c.Endpoint)
		}
		if len(warm) > 0 {
			t.Errorf("no forecast of %v", warm)
		}
	})
}

func TestPriorPassesOverTheBusyAndTheDoubtful(t *testing.T) {
	inLive(t, 20, func(c *route.Config) { c.CompleteUpTo, c.CompleteShare = 0, 0 }, func(t *testing.T, w *world) {
		w.fill(t, id(3), 100_000)
		w.fleet.only(id(5), func(e *pool.State) { e.Healthy = false })
		w.fleet.only(id(7), func(e *pool.State) { e.ScrapedAt = e.ScrapedAt.Add(-1e12) })
		w.fleet.only(id(9), func(e *pool.State) { e.Draining = true })
		d := w.memory.decision(w.begin(t, query("x")))
		if len(d.Candidates) != 16 {
			t.Fatalf("%d candidates forecast", len(d.Candidates))
		}
		for _, c := range d.Candidates {
			switch c.Endpoint {
			case id(3), id(5), id(7), id(9):
				t.Errorf("%s was forecast before an idle healthy one", c.Endpoint)
			}
		}
	})
}

func TestIncompleteRowTellsOfTheRest(t *testing.T) {
	inLive(t, 40, func(c *route.Config) { c.CompleteShare = 0 }, func(t *testing.T, w *world) {
		d := w.memory.decision(w.begin(t, query("x")))
		if d.Complete || d.States != nil || len(d.Candidates) != 16 || d.Rest != 24 {
			t.Errorf("complete %v, %d bytes of state, %d candidates and %d more", d.Complete, len(d.States), len(d.Candidates), d.Rest)
		}
		if !math.IsNaN(d.RestCostMin) || !math.IsNaN(d.RestCostMax) {
			t.Errorf("the rest was not scored, yet costs from %v to %v", d.RestCostMin, d.RestCostMax)
		}
	})
	w := newWorld(t, 40, func(c *route.Config) { c.CompleteShare, c.Policy = 0, policy.TokenLoad })
	for i := range 40 {
		w.fill(t, id(i), 100*(i+1))
	}
	d := w.memory.decision(w.begin(t, query("x")))
	if d.Chosen != id(0) || len(d.Candidates) != 1 || d.Rest != 39 || d.RestCostMin != 1200 || d.RestCostMax != 5000 {
		t.Errorf("chose %s of %d candidates; %d more cost %v to %v, want 1200 to 5000", d.Chosen, len(d.Candidates), d.Rest, d.RestCostMin, d.RestCostMax)
	}
}

func TestShareOfLargeRowsIsComplete(t *testing.T) {
	const n = 1000
	complete := map[float64]int{}
	for _, share := range []float64{0, 0.1, 1} {
		w := newWorld(t, 33, func(c *route.Config) { c.CompleteShare, c.Policy = share, policy.Random })
		for range n {
			ticket := w.begin(t, query("x"))
			if d := w.memory.decision(ticket); d.Complete {
				complete[share]++
				checkReplay(t, d)
			}
			ticket.End(ended(feature.ClientAbort, 0))
		}
	}
	if complete[0] != 0 || complete[1] != n || complete[0.1] < 50 || complete[0.1] > 150 { // 5 standard deviations
		t.Errorf("of %d rows are complete, by share: %v", n, complete)
	}
}
