package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/policy"
)

// run is what came of one failure, or of the matched configuration, in one world
// with one seed. Times are since the injection.
type run struct {
	Requests int // judged
	Failed   int // of all: that ended without a first token
	P99      float64
	Mean     float64 // of TTFT

	Changes []change        // of state
	Decided int             // by forecasts after the injection
	Bad     []time.Duration // when the outcomes of these ended
}

// change is one of whether forecasts may decide.
type change struct {
	At       time.Duration
	From, To correction.State
	Reason   string
}

// simulate runs a world; without a bundle its matched configuration decides.
func simulate(ctx context.Context, w *world, seed uint64, f *failure, known fleet.Forecaster) (run, error) {
	var out run
	c, err := w.Config(seed, kneeShare)
	if err != nil {
		return out, err
	}
	at := w.Before
	if known == nil {
		c.Router.Fallback = w.matched
	} else {
		c.Router.Forecaster = &predictor{Forecaster: known, failure: f, at: at}
		var begun time.Time // when the first bundle was accepted
		c.Router.Changes = func(x correction.Change) {
			if x.From == correction.Cold {
				begun = x.At
				return
			}
			out.Changes = append(out.Changes, change{x.At.Sub(begun) - at, x.From, x.To, x.Reason})
		}
	}
	if f.slows {
		for i := range c.Engines {
			if slowed(i) {
				c.Engines[i].SlowFrom, c.Engines[i].SlowFactor = at, slowedBy
			}
		}
	}
	r, err := fleet.Simulate(ctx, c)
	if err != nil {
		return out, fmt.Errorf("%s, seed %d, %s: %w", w.Name, seed, f.name, err)
	}
	for i := range r.Requests {
		o := &r.Requests[i]
		// Answers of 32,000 tokens take longer than clients wait, whoever decides.
		if o.Status != feature.OK && o.OutputTokens == 0 {
			out.Failed++
		}
		if o.At >= at && o.Policy == policy.Predicted {
			out.Decided++
			out.Bad = append(out.Bad, o.At+o.E2E-at)
		}
	}
	slices.Sort(out.Bad)
	s := r.Summary(r.All(), fleet.SLO{})
	out.Requests, out.P99, out.Mean = s.Requests, float64(s.TTFT.P99), float64(s.TTFT.Mean)
	return out, nil
}

// slowed reports whether an engine is one of the two that slow down.
func slowed(engine int) bool { return engine < 2 }

// noticed is when live operation ended, and how long that was after the 200th bad
// outcome, below 0 if before; ok is false where it should have ended and did not.
// With fewer bad outcomes the last of them counts as the 200th.
func (r *run) noticed() (at, after time.Duration, ok bool) {
	for _, c := range r.Changes {
		if c.From != correction.Live || c.At < 0 {
			continue
		}
		last := min(noticedBy, len(r.Bad)) - 1
		if last < 0 {
			return c.At, 0, true
		}
		return c.At, c.At - r.Bad[last], true
	}
	return 0, 0, len(r.Bad) < noticedBy
}
