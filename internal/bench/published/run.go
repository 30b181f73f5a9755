package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/workload"
)

// simulate runs a study's ladder for every arm and seed. It returns the average over
// seeds, and each seed's ladder. It adds the requests it simulated to requests and
// calls done after each run.
func (s study) simulate(ctx context.Context, w world, seeds []uint64, requests *atomic.Int64, done func()) (out ladder, each []ladder, err error) {
	spec, err := workload.Named(s.name)
	if err != nil {
		return out, nil, err
	}
	out = newLadder(spec.Ladder())
	for range seeds {
		each = append(each, newLadder(out.loads))
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for a := range arms {
		for i, seed := range seeds {
			for l, load := range out.loads[:s.plans(spec)] {
				g.Go(func() error {
					defer done()
					plan, err := w.plan(spec, seed, load)
					if err != nil {
						return err
					}
					cells, err := s.one(ctx, w, arms[a], plan, seed, requests)
					copy(each[i].cells[a][l:], cells)
					return err
				})
			}
		}
	}
	if err := g.Wait(); err != nil {
		return out, nil, fmt.Errorf("%s: %w", s.name, err)
	}
	for a := range arms {
		for l := range out.loads {
			var cells []cell
			for _, of := range each {
				cells = append(cells, of.cells[a][l])
			}
			out.cells[a][l] = mean(cells)
		}
	}
	return out, each, nil
}

// plans is how many plans have all loads of a workload: one has all of an open loop.
func (s study) plans(spec workload.Spec) int {
	if !spec.Closed {
		return 1
	}
	return len(spec.Ladder())
}

// runs is how many simulations simulate runs.
func (s study) runs(seeds int) int {
	spec, err := workload.Named(s.name)
	if err != nil {
		return 0
	}
	return len(arms) * seeds * s.plans(spec)
}

// one is one run: a cell for each stage of the plan, or one for all of it.
func (s study) one(ctx context.Context, w world, a arm, plan workload.Plan, seed uint64, requests *atomic.Int64) ([]cell, error) {
	config := fleet.WorldConfig{Plan: plan, Seed: seed, Router: w.router(a)}
	for range s.endpoints {
		config.Engines = append(config.Engines, fleet.EngineSpec{Profile: w.profile, Options: w.options})
	}
	result, err := fleet.Simulate(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.name, err)
	}
	requests.Add(int64(result.Sent))
	if !a.direct {
		delay(result.Requests, w.gateway)
	}
	if len(plan.Stages) == 0 {
		return []cell{newCell(result.Summary(result.All(), fleet.SLO{}))}, nil
	}
	var cells []cell
	for _, stage := range plan.Stages {
		cells = append(cells, newCell(result.Summary(fleet.Window{From: stage.From, To: stage.To}, fleet.SLO{})))
	}
	return cells, nil
}

// delay makes the first token of each request late by as much for each request that
// was on its way when it was sent.
func delay(requests []fleet.Outcome, each time.Duration) {
	sent := make([]time.Duration, len(requests))
	ended := make([]time.Duration, len(requests))
	for i, r := range requests {
		sent[i], ended[i] = r.At, r.At+r.E2E
	}
	slices.Sort(sent)
	slices.Sort(ended)
	for i := range requests {
		r := &requests[i]
		begun, _ := slices.BinarySearch(sent, r.At)
		over, _ := slices.BinarySearch(ended, r.At)
		if late := each * time.Duration(begun-over); r.OutputTokens > 0 {
			r.TTFT += late
			r.E2E += late
		}
	}
}

func newCell(s fleet.Summary) cell {
	return cell{
		TTFT: float64(s.TTFT.P90), TPOT: float64(s.TPOT.P90), Input: float64(s.Cohort.Input), Output: float64(s.Cohort.Output),
		Success: float64(s.Success), Hits: float64(s.HitRate),
	}
}
