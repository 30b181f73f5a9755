package route

import (
	"time"

	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/pool"
)

// endpoint is what a router has learned of one incarnation of an endpoint.
// Guarded by Router.mu.
type endpoint struct {
	id          string
	incarnation uint64
	slot        int // in the prefix index
	speed       correction.Speed
	offset      correction.Offset
	chosen      uint64
	live        map[*Ticket]struct{} // in flight here
	prefills    []prefill            // first tokens since the last tick
}

// prefill is one prompt whose prefill ended.
type prefill struct {
	at   time.Time
	work float64 // seconds the step model gives for it
}

// endpoint returns what is known of e, starting anew for a new incarnation.
func (r *Router) endpoint(e *pool.State) *endpoint {
	known, ok := r.endpoints[e.ID]
	if ok && known.incarnation == e.Incarnation {
		return known
	}
	fresh := &endpoint{id: e.ID, incarnation: e.Incarnation, slot: r.index.Slot(e.ID), live: map[*Ticket]struct{}{}}
	if ok {
		r.index.Clear(known.slot)
		r.ledger.Forget(e.ID, known.incarnation)
		fresh.chosen = known.chosen
	}
	if e.KVCapacityTokens > 0 {
		r.index.SetCapacity(fresh.slot, e.KVCapacityTokens, r.config.TokensPerByte)
	}
	r.endpoints[e.ID] = fresh
	return fresh
}

// sync drops what is known of endpoints that left the pool. Requests still in
// flight there settle on their own.
func (r *Router) sync(snap *pool.Snapshot) {
	if snap.Epoch == r.epoch {
		return
	}
	r.epoch = snap.Epoch
	present := make(map[string]bool, len(snap.Endpoints))
	for i := range snap.Endpoints {
		present[snap.Endpoints[i].ID] = true
	}
	for id, e := range r.endpoints {
		if !present[id] {
			r.ledger.Forget(id, e.incarnation)
			r.index.Remove(id)
			delete(r.endpoints, id)
		}
	}
}

// observeSpeed compares how long the fastest stream of the endpoint took for
// its tokens since the last tick with what the step model gives for them.
func (r *Router) observeSpeed(now, scrapedAt time.Time, e *endpoint, profile *physics.Profile) {
	var tokens int64
	var from, to time.Time
	for t := range e.live {
		count, last := t.progress()
		if n := count - t.mark.tokens; n > tokens && !t.mark.at.IsZero() {
			tokens, from, to = n, t.mark.at, last
		}
		if count > 0 {
			t.mark.tokens, t.mark.at = count, last
		}
	}
	expected := 0.0
	if tokens > 0 {
		state := r.ledger.State(e.id, e.incarnation, now, scrapedAt)
		expected = float64(tokens) * float64(profile.Coefficients.Step(state.Decoding, state.ContextTokens))
		for _, p := range e.prefills {
			if p.at.After(from) && !p.at.After(to) {
				expected += p.work
			}
		}
	}
	e.prefills = e.prefills[:0]
	e.speed.Observe(now, to.Sub(from).Seconds(), expected)
}
