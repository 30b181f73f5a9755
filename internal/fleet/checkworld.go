package fleet

import (
	"fmt"
	"time"
)

// verify returns the first broken invariant of the world, by its number in the
// package comment, those of its engines included. It takes time proportional
// to the world: it is for tests.
func (w *world) verify() error {
	for _, c := range []struct {
		number int
		check  func() error
	}{
		{11, w.verifyConserved}, {12, w.verifyBooks}, {13, w.verifyTimes}, {14, w.verifyOrder}, {15, w.verifyClients},
	} {
		if err := c.check(); err != nil {
			return fmt.Errorf("invariant %d: %w", c.number, err)
		}
	}
	for i, u := range w.units {
		if err := u.engine.Check(); err != nil {
			return fmt.Errorf("engine %d: %w", i, err)
		}
	}
	return nil
}

func (w *world) verifyConserved() error {
	if w.sent != len(w.live)+len(w.parked)+w.ended {
		return fmt.Errorf("%d requests sent, %d live, %d waiting for forecasts, %d ended", w.sent, len(w.live), len(w.parked), w.ended)
	}
	if w.config.Sink == nil && len(w.result.Requests) != w.ended {
		return fmt.Errorf("%d requests ended with %d outcomes", w.ended, len(w.result.Requests))
	}
	for i, c := range w.live {
		if !c.open || c.place != i {
			return fmt.Errorf("request %d is at place %d of the live ones, thinks %d, open is %t", c.id, i, c.place, c.open)
		}
	}
	return nil
}

func (w *world) verifyBooks() error {
	open := 0
	at := make(map[*replica][]int)
	for _, r := range w.replicas {
		open += r.ledger.Open()
		at[r] = make([]int, len(w.endpoints))
	}
	if open != len(w.live) {
		return fmt.Errorf("the ledgers have %d requests in flight, the world %d", open, len(w.live))
	}
	inEngine := make([]int, len(w.units))
	for _, c := range w.live {
		at[c.replica][c.endpoint]++
		n := w.unit(c)
		inEngine[n]++
		if s := w.units[n].engine.live[c.request.ID]; s == nil || s.Request != &c.request || s.cancelled {
			return fmt.Errorf("request %d is not at engine %d", c.id, n)
		}
		if t := c.ticket.target; t != c.replica.targets[c.endpoint] || c.stream().call != c {
			return fmt.Errorf("request %d is not where the router has it", c.id)
		}
	}
	for _, r := range w.replicas {
		for i, t := range r.targets {
			if books := r.ledger.Own(t.id, 0); t.streams.open() != at[r][i] || books != at[r][i] {
				return fmt.Errorf("endpoint %d has %d requests of router %d, which has %d, its ledger %d", i, at[r][i], r.number, t.streams.open(), books)
			}
		}
	}
	for i, u := range w.units {
		n := 0
		for _, s := range u.engine.live {
			if !s.cancelled {
				n++
			}
		}
		if n != inEngine[i] {
			return fmt.Errorf("engine %d has %d requests, clients wait for %d", i, n, inEngine[i])
		}
	}
	return nil
}

func (w *world) verifyTimes() error {
	if _, at := w.agenda.next(); at < w.now {
		return fmt.Errorf("next act at %v, clock at %v", at, w.now)
	}
	for i, u := range w.units {
		at, ok := u.engine.NextEvent()
		if !ok {
			at = never
		}
		if planned := w.agenda.at(i); planned != at {
			return fmt.Errorf("engine %d acts at %v, planned at %v", i, at, planned)
		}
	}
	for actor, i := range w.agenda.pos {
		if x := w.agenda.heap[i]; x.actor != int32(actor) || i > 0 && x.before(w.agenda.heap[(i-1)/branches]) {
			return fmt.Errorf("actor %d stands wrong in the agenda", actor)
		}
	}
	return nil
}

func (w *world) verifyOrder() error {
	for _, c := range w.live {
		seen := c.stream()
		times := []time.Duration{c.at, c.first, seen.last, w.now}
		if seen.generated == 0 {
			times = []time.Duration{c.at, w.now}
		}
		for i := 1; i < len(times); i++ {
			if times[i-1] > times[i] {
				return fmt.Errorf("request %d: sent, first token, last token and now are %v", c.id, times)
			}
		}
		if patience := w.config.Plan.Timeout; patience > 0 && w.now > c.at+patience {
			return fmt.Errorf("request %d is %v old, clients wait %v", c.id, w.now-c.at, patience)
		}
	}
	return nil
}

func (w *world) verifyClients() error {
	if limit := w.config.Plan.Limit; limit > 0 && w.sent-w.again > limit {
		return fmt.Errorf("%d requests sent, at most %d may be", w.sent, limit)
	}
	if n := w.config.Plan.Concurrency; n > 0 && w.sessions > n {
		return fmt.Errorf("%d sessions of %d clients", w.sessions, n)
	}
	busy := make(map[*client]bool, len(w.live))
	for _, c := range w.live {
		if busy[c.client] {
			return fmt.Errorf("the client of request %d waits for two", c.id)
		}
		busy[c.client] = true
	}
	return nil
}
