package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/evaluate/experiment"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/router/design"
)

// A switchback has so many pairs of blocks, of which the first third is left out.
const (
	pairsOfBlocks = 12
	burnInShare   = 3
)

// experimented are the quantities as package experiment names them.
var experimented = [quantities]experiment.Quantity{experiment.TTFT, experiment.E2E}

// arms are how the log decided and how the target does, as arms of an experiment;
// false where one router can't have both.
func (w *world) arms(t *target) (out [2]fleet.Arm, ok bool) {
	a, b := w.logged, t.of(w.logged)
	if a.canary > 0 || a.says != b.says {
		return out, false
	}
	return [2]fleet.Arm{{Policy: a.policy, Fallback: a.fallback, Settings: a.settings}, {Policy: b.policy, Fallback: b.fallback, Settings: b.settings}}, true
}

const notOneRouter = "arms of one router share its bundle, and are no canaries themselves"

// armNames are what experiments call the log's policy and the target.
var armNames = [2]string{"logged", "target"}

// experiments run the target against the log's policy on live traffic: in turn,
// and by a coin for each request.
func (w *world) experiments(ctx context.Context, b *bundles, t *target, from seeds, out *estimates) error {
	arms, ok := w.arms(t)
	if !ok {
		for _, i := range []instrument{switchback, splitNaive, splitDQ} {
			for q := range quantities {
				out[i][q] = refused(notOneRouter)
			}
		}
		return nil
	}
	p := w.period()
	block := ((p.ends - p.begins) / (2 * pairsOfBlocks)).Truncate(time.Millisecond)
	turns := &fleet.Experiment{Arms: arms, Switchback: &design.Switchback{
		Name: "truth", Start: fleet.Begins().Add(p.begins), Block: block, BurnIn: block / burnInShare, Pairs: pairsOfBlocks, Seed: from.run, Arms: armNames,
	}}
	r, asked, err := w.try(ctx, b, turns, from, p.ends)
	if err != nil {
		return err
	}
	for q := range quantities {
		i := slices.IndexFunc(r.Switchback.Effects, func(e experiment.Effect) bool { return e.Quantity == experimented[q] })
		out[switchback][q] = said(r.Switchback.Effects[i].Relative, asked)
	}
	coin := &fleet.Experiment{Arms: arms, Split: &design.Split{Share: 0.5, Arms: armNames}}
	if r, asked, err = w.try(ctx, b, coin, from, p.logEnds); err != nil {
		return err
	}
	for q := range quantities {
		i := slices.IndexFunc(r.Split.Effects, func(e experiment.SplitEffect) bool { return e.Quantity == experimented[q] })
		out[splitNaive][q] = said(r.Split.Effects[i].NaiveRelative, asked)
		out[splitDQ][q] = said(r.Split.Effects[i].DQRelative, asked)
	}
	return nil
}

// try runs an experiment until a time and judges its rows, of which there are so
// many.
func (w *world) try(ctx context.Context, b *bundles, e *fleet.Experiment, from seeds, until time.Duration) (experiment.Report, int, error) {
	var none experiment.Report
	p := w.period()
	c, err := w.config(from, p.arrivals(until))
	if err != nil {
		return none, 0, err
	}
	w.logged.route(&c.Router, b)
	c.Router.Experiment = e
	rows, err := w.rows(ctx, &c, p.begins, until, func(d *feature.Decision) {
		d.Candidates, d.States = nil, nil // most of the memory, which no analysis reads
	})
	if err != nil {
		return none, 0, err
	}
	a, err := experiment.New(experiment.Options{})
	if err != nil {
		return none, 0, err
	}
	for i := range rows {
		if err := a.Add(rows[i].decision, rows[i].outcome); err != nil {
			return none, 0, err
		}
	}
	r, err := a.Report(from.run)
	if err != nil {
		return none, 0, fmt.Errorf("%s: %w", w.name, err)
	}
	return r, len(rows), nil
}
