package route_test

import (
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/pool"
)

// A decision sees everything that has happened before it, however little time
// ago: what was charged, what got on, what was scraped and what ended. Here no
// time passes at all.
func TestDecisionsSeeWhatHasJustHappened(t *testing.T) {
	inLive(t, 2, nil, func(t *testing.T, w *world) {
		there, here := id(0), id(1)
		w.fleet.only(there, func(e *pool.State) { e.Draining = true }) // nothing goes there by itself
		// seen is what a decision for here sees of the endpoint there.
		seen := func(column string) float64 {
			ticket := w.begin(t, query("x"))
			defer ticket.End(served(1000, 10))
			if ticket.Endpoint() != here {
				t.Fatalf("decided for %s", ticket.Endpoint())
			}
			for _, c := range w.memory.decision(ticket).Candidates {
				if c.Endpoint == there {
					return float64(c.Vector[feature.Index(column)])
				}
			}
			t.Fatalf("no vector of %s", there)
			return 0
		}
		is := func(when, column string, want float64) {
			t.Helper()
			if got := seen(column); got != want {
				t.Errorf("%s, %s is %v, want %v", when, column, got, want)
			}
		}
		is("before anything", "inflight_requests", 0)
		ticket := w.begin(t, query("y"))
		if !ticket.Served(there + ":80") {
			t.Fatal("not moved")
		}
		is("after a request came", "inflight_requests", 1)
		is("before its first token", "inflight_decoding", 0)
		ticket.Sent(time.Now())
		ticket.FirstToken(time.Now())
		is("after its first token", "inflight_decoding", 1)
		context := seen("inflight_context_tokens")
		ticket.Tokens(64, time.Now())
		is("after more tokens", "inflight_context_tokens", context+64)
		w.fleet.only(there, func(e *pool.State) { e.Waiting = 7 })
		is("after a scrape", "waiting", 7)
		ticket.End(served(1000, 65))
		is("after it ended", "inflight_requests", 0)
	})
}
