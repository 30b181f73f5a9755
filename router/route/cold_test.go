package route_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

// Requests that nobody holds a prefix of take turns under weighted-blend: each
// goes where the last such request was longest ago. Others leave the turns as
// they are, and a new life has had none.
func TestColdRequestsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4, func(c *route.Config) { c.Policy = policy.WeightedBlend })
		defer w.run()()
		prompts := 0
		send := func(text string) string {
			w.fleet.scrape()
			ticket := w.begin(t, query(text))
			checkReplay(t, w.memory.decision(ticket))
			ticket.End(ended(feature.ClientAbort, 0))
			pass(time.Second)
			return ticket.Endpoint()
		}
		cold := func() string {
			prompts++
			return send(fmt.Sprint("prompt ", prompts))
		}
		var first []string
		for range 4 {
			first = append(first, cold())
		}
		if all := slices.Sorted(slices.Values(first)); !slices.Equal(all, []string{id(0), id(1), id(2), id(3)}) {
			t.Fatalf("the first four went to %v, want one to each", first)
		}
		for i := range 3 {
			if got := cold(); got != first[i] {
				t.Fatalf("cold request %d went to %s, want %s", 4+i, got, first[i])
			}
			if got := send("prompt 2"); got != first[1] {
				t.Fatalf("a warm request went to %s, want %s, which holds its prefix", got, first[1])
			}
		}
		w.fleet.only(first[1], func(e *pool.State) { e.Incarnation += 100 })
		if got := cold(); got != first[1] {
			t.Errorf("a cold request went to %s, want %s in its new life", got, first[1])
		}
		if got := cold(); got != first[3] {
			t.Errorf("the next went to %s, want %s", got, first[3])
		}
	})
}
