package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
)

// row is a decision and what came of it.
type row struct {
	decision *feature.Decision
	outcome  *feature.Outcome
}

// log is what a world's router wrote down while the log was written, in order. What
// it did before, while caches filled, is not in it, nor what it did after, as it is
// not in a window of a store.
func (w *world) log(ctx context.Context, b *bundles, from seeds) ([]row, error) {
	p := w.period()
	c, err := w.config(from, p.arrivals(p.logEnds))
	if err != nil {
		return nil, err
	}
	w.logged.route(&c.Router, b)
	return w.rows(ctx, &c, p.begins, p.logEnds, func(*feature.Decision) {})
}

// rows runs a world and keeps the rows of what was decided from one time to
// another, in order, each as trim leaves it.
func (w *world) rows(ctx context.Context, c *fleet.WorldConfig, from, to time.Duration, trim func(*feature.Decision)) ([]row, error) {
	var rows []row
	c.Sink = func(fleet.Outcome) {}
	c.Decisions = func(d *feature.Decision, o *feature.Outcome) {
		if at := d.DecidedAt.Sub(fleet.Begins()); at >= from && at < to {
			trim(d)
			rows = append(rows, row{d, o})
		}
	}
	if _, err := fleet.Simulate(ctx, *c); err != nil {
		return nil, fmt.Errorf("%s: %w", w.name, err)
	}
	slices.SortFunc(rows, func(a, b row) int { return bytes.Compare(a.decision.ID[:], b.decision.ID[:]) })
	return rows, nil
}
