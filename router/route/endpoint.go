package route

import (
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/pool"
)

// endpoint is what a router has learned of one incarnation of an endpoint.
// Guarded by Router.mu, but for id and incarnation, which never change.
type endpoint struct {
	id          string
	incarnation uint64
	over        bool // it left, or began another life
	slot        int  // in the prefix index
	speed       correction.Speed
	offset      correction.Offset
	chosen      uint64
	pace        pace
	occupancy   correction.Occupancy // by the requests of this router
	coldAt      time.Time            // when it was last given a request that nobody held a prefix of; zero: never
	live        map[*Ticket]struct{} // in flight here
	silent      map[*Ticket]struct{} // those of them without a first token
	clock       correction.Clock     // what its streams did since the last tick

	// What was found when it was looked at last; see look.
	seen   sight
	seenAt time.Time // zero: something has happened since
	sights uint64    // how often it was looked at anew

	// Of the present snapshot.
	state    *pool.State
	address  string // of its URL, as Address writes it
	profile  *physics.Profile
	capacity float64 // of its cache in tokens, as the index was told
	perByte  float64 // tokens a byte of prompt is, as the index was told
}

// sync reads the pool and makes what is known fit it: endpoints that left are
// dropped, a new incarnation begins with nothing learned. Requests still in
// flight at a life that is over settle on their own.
//
// Called under mu, and nothing else there reads the pool: so the pool as the
// router sees it never goes back, and what left stays gone.
func (r *Router) sync() *pool.Snapshot {
	snap := r.pool.Snapshot()
	if snap == r.snapshot {
		return snap
	}
	r.snapshot = snap
	for id, e := range r.endpoints {
		if snap.Find(id) == nil {
			r.ledger.Forget(id, e.incarnation)
			r.index.Remove(id)
			delete(r.endpoints, id)
			e.over = true
		}
	}
	clear(r.present)
	r.present = r.present[:0]
	for i := range snap.Endpoints {
		r.present = append(r.present, r.meet(&snap.Endpoints[i]))
	}
	return snap
}

// meet returns what is known of e, brought up to date.
func (r *Router) meet(e *pool.State) *endpoint {
	known := r.endpoints[e.ID]
	if known == nil || known.incarnation != e.Incarnation {
		fresh := &endpoint{id: e.ID, incarnation: e.Incarnation, slot: r.index.Slot(e.ID), live: map[*Ticket]struct{}{}, silent: map[*Ticket]struct{}{}, perByte: r.config.TokensPerByte}
		if known != nil {
			r.index.Clear(known.slot)
			r.ledger.Forget(e.ID, known.incarnation)
			known.over = true
			fresh.chosen, fresh.pace = known.chosen, known.pace
		}
		known = fresh
		r.endpoints[e.ID] = known
	}
	if known.state == nil || known.state.URL != e.URL {
		known.address = addressOf(e.URL)
	}
	if known.state == nil || !alike(known.state, e) {
		known.touch()
	}
	known.state, known.profile = e, r.profile(e)
	capacity := float64(known.profile.KVCapacityTokens)
	if e.KVCapacityTokens > 0 { // often heard only some time after e was met
		capacity = e.KVCapacityTokens
	}
	if capacity != known.capacity {
		known.capacity = capacity
		r.index.SetCapacity(known.slot, capacity, known.perByte)
	}
	return known
}

// still is the endpoint, in the life that it is in now; nil where it left. Called
// under mu.
func (r *Router) still(e *endpoint) *endpoint {
	if e.over {
		return r.endpoints[e.id]
	}
	return e
}

// alike reports whether two states of one endpoint show a decision the same:
// whenever one endpoint was scraped, all come in a new snapshot.
func alike(a, b *pool.State) bool {
	same := func(x, y float64) bool { return x == y || x != x && y != y } // also where both are unknown
	return a.Class == b.Class && a.Profile == b.Profile && a.ScrapedAt.Equal(b.ScrapedAt) &&
		same(a.Waiting, b.Waiting) && same(a.Running, b.Running) && same(a.KVUsed, b.KVUsed) &&
		same(a.KVCapacityTokens, b.KVCapacityTokens) && same(a.MaxNumSeqs, b.MaxNumSeqs)
}

// resize makes the index count the endpoint's cache by the tokens that a byte
// of prompt has turned out to be: on average over the LLMs that it lists.
func (r *Router) resize(e *endpoint) {
	sum, n := 0.0, 0
	for _, name := range e.state.LLMs {
		if l, ok := r.llms[name]; ok {
			sum += l.bytes.settled
			n++
		}
	}
	if n == 0 {
		return
	}
	if ratio := sum / float64(n); drifted(ratio, e.perByte) {
		e.perByte = ratio
		r.index.SetCapacity(e.slot, e.capacity, ratio)
	}
}

// coldAgo is how long ago the endpoint was given a cold request; NaN: never.
func (e *endpoint) coldAgo(now time.Time) feature.Seconds {
	if e.coldAt.IsZero() {
		return feature.Seconds(feature.Unknown)
	}
	return feature.SecondsOf(now.Sub(e.coldAt))
}

// observeSpeed compares how long the fastest stream of the endpoint took for
// its steps since the last tick with what the step model gives for them, and
// what all of them are still waiting for with the longest step that it can give.
func (r *Router) observeSpeed(now time.Time, e *endpoint) {
	for t := range e.live { // in no order, which is no matter to the clock
		events, last := t.progress()
		e.clock.Stream(&t.mark, events, last)
		t.tellGenerated(now)
	}
	step := 0.0
	if len(e.live) > 0 {
		state := r.ledger.State(e.id, e.incarnation, now, e.state.ScrapedAt)
		step = float64(e.profile.Coefficients.Step(state.Decoding, state.ContextTokens))
	}
	e.clock.Stalled(now, step+e.fullChunk(r.longestElsewhere(e)), &e.speed)
	e.clock.Tick(now, step, &e.speed)
	e.touch()
}

// fullChunk is the seconds by the step model that prefill adds to a step which
// holds as much of it as it can, from the end of the longest prompt that waits;
// that of another router has so many tokens.
func (e *endpoint) fullChunk(elsewhere float64) float64 {
	budget := float64(e.profile.MaxBatchedTokens)
	longest := max(budget, elsewhere)
	for t := range e.silent {
		longest = max(longest, t.prompt)
	}
	return float64(e.profile.Coefficients.Work(longest, budget))
}

// observeOverdue counts those whose first token is later than their p90, and those
// so late that their forecast is refuted, once each and before it comes: an endpoint
// that hangs gives no outcomes to learn from.
func (r *Router) observeOverdue(e *endpoint, now time.Time) {
	var refuted []*Ticket
	for t := range e.silent {
		if !t.query.Streaming || !t.plain.Known() {
			continue
		}
		waited := feature.SecondsOf(now.Sub(t.decidedAt))
		if !t.overdue && waited > t.corrected.TTFT.P90 {
			t.overdue = true
			t.llm.coverage.Overdue(t.load)
		}
		if !t.late && correction.Refuted(&t.corrected, waited) {
			t.late = true
			refuted = append(refuted, t)
		}
	}
	// A judge remembers them in the order in which it is told.
	slices.SortFunc(refuted, func(a, b *Ticket) int { return a.decidedAt.Compare(b.decidedAt) })
	for _, t := range refuted {
		s := correction.Settled{Endpoint: e.id, DispatchedAt: t.dispatched(), Plain: t.plain, Forecast: t.corrected}
		r.note(t.llm, nil)(t.llm.guard.Overdue(now, t.bundle, &s))
	}
}
