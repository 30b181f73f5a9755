package console

import (
	"sync"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/route"
)

// How many decisions a Ring holds, and which: as many as come up to a burst,
// and so many a second beyond it. It therefore reaches back most of a minute
// and pins a few megabytes at any rate.
const (
	ringLength = 256
	ringBurst  = 64
	ringRate   = 4 // a second
)

// Ring is a Recorder that hands on what it is given and keeps some of the
// latest decisions with what came of them. It allocates nothing.
type Ring struct {
	next route.Recorder

	mu      sync.Mutex
	kept    [ringLength]kept
	count   int                // ever kept; the next goes to kept[count%ringLength]
	slots   map[feature.ID]int // of those kept
	credit  float64            // decisions that may be kept now
	counted time.Time          // when credit was
}

// kept is a decision and what came of its attempts; a request is tried again
// once at most.
type kept struct {
	decision feature.Decision
	outcomes [2]feature.Outcome
	ended    int
}

// NewRing makes a Ring before next.
func NewRing(next route.Recorder) *Ring {
	return &Ring{next: next, slots: make(map[feature.ID]int, 2*ringLength), credit: ringBurst}
}

// RecordDecision hands on d and may keep it. Nobody changes it from now on.
func (r *Ring) RecordDecision(d feature.Decision) {
	r.keep(&d)
	r.next.RecordDecision(d)
}

// RecordOutcome hands on o and keeps it beside its decision.
func (r *Ring) RecordOutcome(o feature.Outcome) {
	r.end(&o)
	r.next.RecordOutcome(o)
}

func (r *Ring) keep(d *feature.Decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if passed := d.DecidedAt.Sub(r.counted); passed > 0 {
		r.credit = min(ringBurst, r.credit+ringRate*passed.Seconds())
		r.counted = d.DecidedAt
	}
	if r.credit < 1 {
		return
	}
	r.credit--
	slot := r.count % ringLength
	k := &r.kept[slot]
	if r.count >= ringLength {
		delete(r.slots, k.decision.ID)
	}
	k.decision, k.ended = *d, 0
	r.slots[d.ID] = slot
	r.count++
}

func (r *Ring) end(o *feature.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slot, ok := r.slots[o.Decision]
	if !ok {
		return
	}
	k := &r.kept[slot]
	if k.ended < len(k.outcomes) {
		k.ended++
	}
	k.outcomes[k.ended-1] = *o
}

// latest are up to most decisions, newest first.
func (r *Ring) latest(most int) []kept {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(most, r.count, ringLength)
	out := make([]kept, n)
	for i := range out {
		out[i] = r.kept[(r.count-1-i)%ringLength]
	}
	return out
}

// find is the decision of that name, if it is kept.
func (r *Ring) find(id feature.ID) (kept, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slot, ok := r.slots[id]
	if !ok {
		return kept{}, false
	}
	return r.kept[slot], true
}
