package route_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

// together decides all queries while the predictor holds every one of their
// calls, then lets it answer, and counts the choices.
func together(t *testing.T, w *world, queries []*route.Query) map[string]int {
	t.Helper()
	gate := make(chan struct{})
	w.oracle.set(func(ctx context.Context, llm string, v []feature.Vector, out []feature.Forecast) (route.Answer, error) {
		<-gate
		return well(ctx, llm, v, out)
	})
	tickets := make([]*route.Ticket, len(queries))
	var all sync.WaitGroup
	for i, q := range queries {
		all.Go(func() { tickets[i] = w.begin(t, q) })
	}
	pass(4 * time.Millisecond) // all of them are asking now
	close(gate)
	all.Wait()
	w.oracle.set(well)
	chosen := map[string]int{}
	for _, ticket := range tickets {
		if ticket.Policy() != policy.Predicted {
			t.Fatalf("decided by %s: %s", ticket.Policy(), ticket.Header())
		}
		chosen[ticket.Endpoint()]++
		ticket.End(ended(feature.ClientAbort, 0))
	}
	return chosen
}

func repeat(n int, text string) (queries []*route.Query) {
	for range n {
		queries = append(queries, query(text))
	}
	return queries
}

func TestRequestsBlockedOnOneForecastSpreadByLoad(t *testing.T) {
	inLive(t, 4, nil, func(t *testing.T, w *world) {
		var queries []*route.Query
		for i := range 16 {
			queries = append(queries, query(fmt.Sprint("prompt ", i)))
		}
		chosen := together(t, w, queries)
		for i := range 4 {
			if chosen[id(i)] != 4 {
				t.Errorf("%s got %d of 16 requests that waited together: %v", id(i), chosen[id(i)], chosen)
			}
		}
		w.idle(t)
	})
}

func TestColdBurstOfOnePromptStaysTogether(t *testing.T) {
	inLive(t, 4, nil, func(t *testing.T, w *world) {
		if chosen := together(t, w, repeat(8, "one system prompt")); len(chosen) != 1 {
			t.Errorf("8 requests of one cold prompt went to %v", chosen)
		}
	})
}

func TestColdBurstOfOnePromptSpillsWhenItsEndpointIsFull(t *testing.T) {
	inLive(t, 4, nil, func(t *testing.T, w *world) {
		queries := repeat(40, "one long prompt")
		for _, q := range queries {
			q.Prompt, q.PromptBytes = nil, 160_000 // 40,000 tokens that nothing holds
		}
		if chosen := together(t, w, queries); len(chosen) != 4 {
			t.Errorf("40 heavy requests without a prefix went to %v", chosen)
		}
		queries = repeat(400, "one system prompt")
		for _, q := range queries {
			q.PromptBytes = 160_000 // its first 4,000 bytes are shared
		}
		if chosen := together(t, w, queries); len(chosen) != 4 {
			t.Errorf("400 heavy requests of one prefix went to %v: the valve never opened", chosen)
		}
	})
}

func TestBurstWithoutForecastsDoesNotPileUpEither(t *testing.T) {
	w := newWorld(t, 4, func(c *route.Config) { c.Policy = policy.TokenLoad })
	var mu sync.Mutex
	chosen := map[string]int{}
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			ticket := w.begin(t, query(fmt.Sprint(i)))
			mu.Lock()
			defer mu.Unlock()
			chosen[ticket.Endpoint()]++
		})
	}
	all.Wait()
	for i := range 4 {
		if chosen[id(i)] != 10 {
			t.Errorf("%s got %d of 40 concurrent requests: %v", id(i), chosen[id(i)], chosen)
		}
	}
}

func TestDecisionIsMadeFromThePoolAsItHasBecome(t *testing.T) {
	for what, happens := range map[string]func(w *world){
		"left":     func(w *world) { w.fleet.leave(id(0)) },
		"drains":   func(w *world) { w.fleet.only(id(0), func(e *pool.State) { e.Draining = true }) },
		"fails":    func(w *world) { w.fleet.only(id(0), func(e *pool.State) { e.Healthy = false }) },
		"restarts": func(w *world) { w.fleet.only(id(0), func(e *pool.State) { e.Incarnation = 99 }) },
	} {
		t.Run(what, func(t *testing.T) {
			inLive(t, 3, nil, func(t *testing.T, w *world) {
				one := w.begin(t, query("warm")) // e000 or another holds the prefix; move it to e000
				for one.Endpoint() != id(0) {
					one = w.begin(t, query(fmt.Sprint("warm", time.Now().UnixNano())))
					pass(time.Millisecond)
				}
				warm := w.memory.decision(one)
				w.oracle.set(func(ctx context.Context, llm string, v []feature.Vector, out []feature.Forecast) (route.Answer, error) {
					for i := range v {
						out[i] = residual(&v[i], map[bool]float64{true: -3, false: 0}[i == 0]) // e000 is by far the best
					}
					happens(w)
					return route.Answer{Bundle: 7, Validated: time.Now()}, nil
				})
				ticket := w.begin(t, query("next"))
				if ticket.Endpoint() == id(0) {
					t.Errorf("chose an endpoint that %s while its forecast was made", what)
				}
				if d := w.memory.decision(ticket); d.Epoch <= warm.Epoch {
					t.Errorf("the row names snapshot %d, from before the change", d.Epoch)
				}
				checkReplay(t, w.memory.decision(ticket))
			})
		})
	}
}

func TestNewLifeOfAnEndpointHoldsNoPrefix(t *testing.T) {
	w := newWorld(t, 3, nil)
	first := w.begin(t, query("shared"))
	first.End(served(1000, 10))
	if again := w.begin(t, query("shared")); again.Endpoint() != first.Endpoint() {
		t.Fatalf("a warm prompt went from %s to %s", first.Endpoint(), again.Endpoint())
	}
	w.fleet.only(first.Endpoint(), func(e *pool.State) { e.Incarnation = 99 })
	d := w.memory.decision(w.begin(t, query("shared")))
	for _, c := range d.Candidates {
		in := c.Vector[feature.ColumnCachedTokens]
		if !math.IsNaN(float64(in)) && in != 0 {
			t.Errorf("%s is believed to hold %v tokens after its restart", c.Endpoint, in)
		}
	}
}
