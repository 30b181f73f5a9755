package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
)

// row is a decision and what came of it.
type row struct {
	decision *feature.Decision
	outcome  *feature.Outcome
}

// log is what a world's router wrote down while the log was written, in order. What
// it did before, while caches filled, is not in it, as it is not in a window of
// a store.
func (w *world) log(ctx context.Context, b *bundles, from seeds) ([]row, error) {
	p := w.period()
	c, err := w.config(from, p.logEnds)
	if err != nil {
		return nil, err
	}
	w.logged.route(&c.Router, b)
	begun := fleet.Begins().Add(p.begins)
	var rows []row
	c.Sink = func(fleet.Outcome) {}
	c.Decisions = func(d *feature.Decision, o *feature.Outcome) {
		if !d.DecidedAt.Before(begun) {
			rows = append(rows, row{d, o})
		}
	}
	if _, err := fleet.Simulate(ctx, c); err != nil {
		return nil, fmt.Errorf("%s: %w", w.name, err)
	}
	slices.SortFunc(rows, func(a, b row) int { return bytes.Compare(a.decision.ID[:], b.decision.ID[:]) })
	return rows, nil
}
