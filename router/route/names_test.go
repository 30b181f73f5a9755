package route_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

func TestClientsCannotFillTheMemoryWithNames(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.fleet.change(func(e *pool.State) { e.LLMs = nil })
	for i := range 2000 {
		q := query("x")
		q.LLM = fmt.Sprintf("model-%04d", i)
		ticket := w.begin(t, q)
		if d := w.memory.decision(ticket); d.LLM != q.LLM || d.State != "cold" {
			t.Errorf("row of %q in state %q, want %q", d.LLM, d.State, q.LLM)
		}
		ticket.End(served(1000, 10))
	}
	llms := w.Status().LLMs
	if len(llms) != 257 || llms[256].LLM != "(other)" || llms[256].Decisions != 2000-256 {
		t.Errorf("%d LLMs are kept apart, the last is %+v", len(llms), llms[len(llms)-1])
	}
	if n := w.series(t, "spillway_router_state"); n != 257*6 {
		t.Errorf("%d series of the state, want 6 for each of 257", n)
	}
	if n := w.series(t, "spillway_router_ttft_seconds"); n != 257 {
		t.Errorf("%d series of the TTFT, want 257", n)
	}
}

// series is how many a metric has.
func (w *world) series(t testing.TB, metric string) int {
	t.Helper()
	families, err := w.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == metric {
			return len(family.GetMetric())
		}
	}
	return 0
}

func TestListedLLMFindsAPlaceAmongNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, nil)
		w.fleet.only(id(0), func(e *pool.State) { e.LLMs = nil })
		w.fleet.only(id(1), func(e *pool.State) { e.Draining = true; e.LLMs = nil })
		for i := range 300 {
			q := query("x")
			q.LLM = fmt.Sprintf("model-%04d", i)
			w.begin(t, q).End(served(1000, 10))
			pass(time.Millisecond)
		}
		w.fleet.scrape()
		w.oracle.set(fails(route.ErrUntrained))
		defer w.run()()
		pass(10 * time.Second)
		w.mustBe(t, "") // not known
		w.fleet.only(id(1), func(e *pool.State) { e.LLMs = []string{llm, "bad\xff"} })
		w.oracle.set(well)
		pass(10 * time.Second) // 17 rounds of probes ask about everyone once
		w.mustBe(t, "live")
		if n := w.series(t, "spillway_router_state"); n != 257*6 {
			t.Errorf("%d series of the state, want 6 for each of 257", n)
		}
		if n := w.series(t, "spillway_router_ttft_seconds"); n != 256 {
			t.Errorf("%d series of the TTFT, want 256: one gave its place up, and the new one has served nothing", n)
		}
		for _, l := range w.Status().LLMs {
			if l.LLM == "model-0000" {
				t.Error("the name asked for longest ago kept its place")
			}
			if want := map[bool]string{true: "cold", false: "live"}[l.LLM == "(other)"]; l.State != want {
				t.Errorf("%s is %s, want %s", l.LLM, l.State, want)
			}
		}
	})
}

func TestProbesAskAboutEveryLLMInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		w.fleet.change(func(e *pool.State) { e.LLMs = many(100) })
		asked := map[string]int{}
		w.oracle.set(func(_ context.Context, llm string, _ []feature.Vector, _ []feature.Forecast) (route.Answer, error) {
			asked[llm]++ // by the router's own goroutine alone
			return route.Answer{}, route.ErrUntrained
		})
		stop := w.run()
		pass(1010 * time.Millisecond) // all are listed
		pass(25 * 250 * time.Millisecond)
		stop()
		for _, name := range many(100) {
			if n := asked[name]; n < 4 || n > 5 {
				t.Errorf("%s was asked about %d times in 25 rounds of 16 of 100", name, n)
			}
		}
	})
}

func TestMoreListedLLMsThanPlacesKeepTheirs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, nil)
		w.fleet.change(func(e *pool.State) { e.LLMs = many(300) })
		defer w.run()()
		pass(10 * time.Second)
		calls := w.oracle.count()
		pass(10 * time.Second)
		if n := w.oracle.count() - calls; n != 0 {
			t.Errorf("%d probes after all that have a place are live: places change hands", n)
		}
		live := 0
		for _, l := range w.Status().LLMs {
			if l.State == "live" {
				live++
			}
		}
		if live != 256 {
			t.Errorf("%d LLMs are live, want 256", live)
		}
	})
}

// many are n names of LLMs in order.
func many(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("adapter-%04d", i))
	}
	return names
}
