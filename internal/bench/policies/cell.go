package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
)

// metric is one number of a run, in seconds or as a ratio.
type metric uint8

const (
	e2e metric = iota
	ttft
	ttftP90
	tpotP90
	slowdown // mean over classes of E2E over what the request takes alone
	metrics
)

// String is the metric as tables name it.
func (m metric) String() string {
	return [metrics]string{"mean E2E", "mean TTFT", "TTFT p90", "TPOT p90", "slowdown"}[m]
}

// cell is what one run came to.
type cell struct {
	Value    [metrics]float64
	Requests int // that are judged
	Failed   int // of them
	Hits     float64
}

// one runs an arm and judges it.
func (w *world) one(ctx context.Context, a *arm, seed uint64, load float64, b fleet.Forecaster) (cell, error) {
	c, err := w.config(seed, seed, load, true)
	if err != nil {
		return cell{}, err
	}
	a.route(&c.Router, b)
	result, err := fleet.Simulate(ctx, c)
	if err != nil {
		return cell{}, fmt.Errorf("%s at %g, %s, seed %d: %w", w.name, load, a.name, seed, err)
	}
	return judge(result, w.window(&c.Plan), c.Plan.Timeout), nil
}

// judge reads a run. A request that failed counts as one that took its client's
// patience, and its first token as the last where there was none.
func judge(r *fleet.Result, judged fleet.Window, patience time.Duration) cell {
	var out cell
	for i := range r.Requests {
		o := &r.Requests[i]
		if o.Status == feature.OK {
			continue
		}
		if o.At >= judged.From && o.At < judged.To {
			out.Failed++
		}
		o.Status, o.E2E = feature.OK, patience
		if o.OutputTokens == 0 {
			o.TTFT = patience
		}
	}
	s := r.Summary(judged, fleet.SLO{})
	out.Requests, out.Hits = s.Requests, float64(s.HitRate)
	out.Value = [metrics]float64{
		float64(s.E2E.Mean), float64(s.TTFT.Mean), float64(s.TTFT.P90), float64(s.TPOT.P90), float64(s.Slowdown),
	}
	return out
}
