package share

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/spillway-llm/spillway/router/route"
)

// Where a holding came from.
const (
	fromPeer = "peer"
	fromFile = "file"
)

var origins = []string{fromPeer, fromFile}

const (
	// restoreEvery is how often endpoints are tried that were not ready.
	restoreEvery = 250 * time.Millisecond
	// restoreFor is for how long: by then an endpoint has been scraped, or will
	// have forgotten.
	restoreFor = time.Minute
	// mostPending bounds the blocks that wait; those beyond are dropped.
	mostPending = 1 << 22
)

// restoring is what was told to be cached at endpoints that could not be asked
// yet which life they are in.
type restoring struct {
	mu      sync.Mutex
	pending []told
	blocks  int
}

type told struct {
	holding route.Holding
	from    string
	at      time.Time
}

func (r *restoring) add(h route.Holding, from string, now time.Time) {
	if len(h.Blocks) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.blocks+len(h.Blocks) > mostPending {
		return
	}
	r.blocks += len(h.Blocks)
	r.pending = append(r.pending, told{h, from, now})
}

// waiting gives yield what was not restored yet, as old as it is now, until that
// returns false.
func (r *restoring) waiting(now time.Time, yield func(route.Holding) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.pending {
		h := t.holding
		h.Blocks = slices.Clone(h.Blocks)
		for i := range h.Blocks {
			h.Blocks[i].Age += max(0, now.Sub(t.at))
		}
		if !yield(h) {
			return
		}
	}
}

// run restores what waits until ctx is done.
func (r *restoring) run(ctx context.Context, n *Node) error {
	ticker := time.NewTicker(restoreEvery)
	defer ticker.Stop()
	for {
		r.try(n, time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (r *restoring) try(n *Node, now time.Time) {
	r.mu.Lock()
	pending := r.pending
	r.pending = nil
	r.mu.Unlock()
	kept := pending[:0]
	for _, t := range pending {
		added, what := n.router.Restore(t.holding)
		switch {
		case what == route.NotYet && now.Sub(t.at) < restoreFor:
			kept = append(kept, t)
			continue
		case what == route.Restored:
			n.metrics.restored.WithLabelValues(t.from).Add(float64(added))
		}
		r.mu.Lock()
		r.blocks -= len(t.holding.Blocks)
		r.mu.Unlock()
	}
	if len(kept) == 0 {
		return
	}
	r.mu.Lock()
	r.pending = append(kept, r.pending...)
	r.mu.Unlock()
}
