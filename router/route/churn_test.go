package route_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/pool"
)

// TestChurnLosesNothing: while endpoints leave, join, restart and drain under
// load, every request is decided or refused, every decision ends once, and
// nothing is left in flight.
func TestChurnLosesNothing(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 6, nil)
			w.oracle.set(moody(rand.New(rand.NewPCG(seed, 0))))
			stop := w.run()
			pass(1300 * time.Millisecond)
			w.fleet.scrape()

			var all sync.WaitGroup
			sent := make([]int, 8)
			for i := range sent {
				all.Go(func() {
					sent[i] = len(w.client(t, fmt.Sprint("client ", i), rand.New(rand.NewPCG(seed, uint64(1+i))), 25))
				})
			}
			all.Go(func() {
				rng := rand.New(rand.NewPCG(seed, 99))
				for i := range 200 {
					<-time.After(time.Duration(rng.IntN(2000)) * time.Microsecond)
					w.churn(rng, i)
				}
			})
			all.Wait()
			stop()

			n := 0
			for _, some := range sent {
				n += some
			}
			if n != 8*25 || len(w.memory.decisions) != n || len(w.memory.outcomes) != n || w.memory.twice != 0 {
				t.Errorf("%d requests, %d decisions, %d outcomes, %d of them twice", n, len(w.memory.decisions), len(w.memory.outcomes), w.memory.twice)
			}
			w.idle(t)
			if status := w.Status(); len(status.Endpoints) != len(w.fleet.Snapshot().Endpoints) {
				t.Errorf("%d endpoints known, %d in the pool", len(status.Endpoints), len(w.fleet.Snapshot().Endpoints))
			}
		})
	}
}

// churn changes something about the pool. e000 stays, so that none is empty.
func (w *world) churn(rng *rand.Rand, i int) {
	who := id(1 + rng.IntN(5))
	if w.fleet.Snapshot().Find(who) == nil {
		w.fleet.join(who)
		return
	}
	switch rng.IntN(4) {
	case 0:
		w.fleet.leave(who)
	case 1:
		w.fleet.only(who, func(e *pool.State) { e.Incarnation = uint64(1000 + i) })
	case 2:
		w.fleet.only(who, func(e *pool.State) { e.Draining = !e.Draining })
	case 3:
		w.fleet.only(who, func(e *pool.State) { e.Healthy = !e.Healthy })
	}
}

// TestEndpointsThatCameAndWentLeaveNoMemory compares the heap before and after
// thousands of endpoints served one request each.
func TestEndpointsThatCameAndWentLeaveNoMemory(t *testing.T) {
	w := newWorld(t, 1, nil)
	generation := func(from int) {
		for i := from; i < from+2000; i++ {
			w.fleet.join(fmt.Sprintf("x%06d", i))
			w.fleet.only(id(0), func(e *pool.State) { e.Draining = true })
			ticket := w.begin(t, query(fmt.Sprint(i)))
			w.fleet.leave(ticket.Endpoint())
			ticket.Sent(time.Now())
			ticket.FirstToken(time.Now())
			ticket.End(served(1000, 10))
		}
		clear(w.memory.decisions)
		clear(w.memory.outcomes)
		clear(w.fleet.succeeded)
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	generation(0) // buffers and histories have their size now
	before := heap()
	generation(10_000)
	if after := heap(); after > before+256<<10 {
		t.Errorf("2,000 endpoints that left cost %d bytes", after-before)
	}
	if n := len(w.Status().Endpoints); n != 1 {
		t.Errorf("%d endpoints are known, want the one there is", n)
	}
}

// TestEndpointThatLeftIsNotMetAgain: a request in flight there may end, and
// what it says is not lost, but the endpoint stays gone.
func TestEndpointThatLeftIsNotMetAgain(t *testing.T) {
	w := newWorld(t, 2, nil)
	ticket := w.begin(t, query("x"))
	gone := ticket.Endpoint()
	ticket.Sent(time.Now())
	w.fleet.leave(gone)
	w.begin(t, query("y")).End(served(1000, 10))
	ticket.FirstToken(time.Now())
	ticket.Tokens(100, time.Now())
	ticket.End(served(1000, 101))
	if o := w.memory.outcome(ticket); o.Endpoint != gone || o.Status != feature.OK || o.OutputTokens != 101 {
		t.Errorf("outcome %+v", o)
	}
	for _, e := range w.Status().Endpoints {
		if e.ID == gone {
			t.Errorf("%s is known again", gone)
		}
	}
	w.fleet.join(gone)
	for _, e := range w.Status().Endpoints {
		if e.ID == gone && (e.InFlight != 0 || e.Chosen != 0) {
			t.Errorf("its new life begins with %v in flight and %d choices", e.InFlight, e.Chosen)
		}
	}
}
