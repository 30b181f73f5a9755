package main

import (
	"sync"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/route"
)

// rows counts what the router records on its way to the store. What it keeps is
// of one round alone, so that its own memory is flat.
type rows struct {
	to route.Recorder

	mu        sync.Mutex
	decisions int64
	outcomes  int64
	stray     int64                   // outcomes of no decision, or of one that had ended
	open      map[feature.ID]struct{} // decisions without an outcome
	decided   map[feature.ID]struct{} // of this round
}

func newRows(to route.Recorder) *rows {
	return &rows{to: to, open: map[feature.ID]struct{}{}, decided: map[feature.ID]struct{}{}}
}

func (r *rows) RecordDecision(d feature.Decision) {
	r.mu.Lock()
	r.decisions++
	r.open[d.ID], r.decided[d.ID] = struct{}{}, struct{}{}
	r.mu.Unlock()
	r.to.RecordDecision(d)
}

func (r *rows) RecordOutcome(o feature.Outcome) {
	r.mu.Lock()
	r.outcomes++
	if _, ok := r.open[o.Decision]; !ok {
		r.stray++
	}
	delete(r.open, o.Decision)
	r.mu.Unlock()
	r.to.RecordOutcome(o)
}

// look returns the counts, and how many decisions have no outcome yet.
func (r *rows) look() (decisions, outcomes, stray int64, open int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.decisions, r.outcomes, r.stray, len(r.open)
}

// unknown counts the decisions that clients were told of and nobody recorded in
// this round, which it ends.
func (r *rows) unknown(told []feature.ID) (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range told {
		if _, ok := r.decided[id]; !ok {
			n++
		}
	}
	r.decided = map[feature.ID]struct{}{}
	return n
}
