package route

import (
	"time"

	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/prefix"
)

// Holding is what one endpoint is believed to have cached: what a router that
// begins can be given by one that has watched it.
type Holding struct {
	Endpoint string
	Started  float64 // names its life: see pool.State; NaN: it has no name
	Blocks   []prefix.Held
}

// Holdings gives yield what each endpoint is believed to hold, in order of their
// ids, until that returns false. The router goes on in between.
func (r *Router) Holdings(yield func(Holding) bool) {
	r.mu.Lock()
	r.sync()
	ids := make([]string, 0, len(r.present))
	for _, e := range r.present {
		ids = append(ids, e.id)
	}
	r.mu.Unlock()
	for _, id := range ids {
		if h, ok := r.holding(id); ok && len(h.Blocks) > 0 && !yield(h) {
			return
		}
	}
}

func (r *Router) holding(id string) (Holding, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.endpoints[id]
	if e == nil {
		return Holding{}, false
	}
	return Holding{Endpoint: id, Started: e.state.Started, Blocks: r.index.Held(e.slot, time.Now(), nil)}, true
}

// Restoring is what became of a Holding.
type Restoring uint8

const (
	// Restored: the index believes it, as far as it has room.
	Restored Restoring = iota
	// NotYet: the endpoint is not known, or has not said yet which life it is
	// in. It may be tried again.
	NotYet
	// Over: it is of a life of the endpoint that is over.
	Over
)

// Restore believes a Holding, beside what this router has seen itself, and says
// how many blocks it added.
func (r *Router) Restore(h Holding) (added int, what Restoring) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sync()
	e := r.endpoints[h.Endpoint]
	switch {
	case e == nil || e.state.ScrapedAt.IsZero():
		return 0, NotYet
	case !pool.SameLife(h.Started, e.state.Started):
		return 0, Over
	}
	e.touch()
	return r.index.Restore(e.slot, h.Blocks, time.Now()), Restored
}
