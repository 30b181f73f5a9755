package main

import (
	"time"

	"github.com/spillway-llm/spillway/internal/advise"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

const (
	endpoints = 10
	profile   = "qwen3-32b-h100-tp2-routing"
)

// studied is one kind of traffic at one load.
type studied struct {
	name   string
	load   float64
	unit   string
	single bool // a matched configuration is to be named; else predicted is to be recommended
	plan   func(seed uint64) workload.Plan

	engines physics.Profile
	valve   advise.Valve
}

// worlds are the workloads at the lengths and loads of the benchmark of policies:
// published loads, or 0.6 and 0.9 of a knee.
var worlds = []struct {
	name   string
	single bool
	length time.Duration
	loads  []float64
}{
	{"code-generation", true, 0, []float64{30, 70}},
	{"reasoning", true, 0, []float64{150, 350}},
	{"b2b-saas", true, 0, []float64{20, 46}},
	{"interactive-chat", true, 3 * time.Minute, []float64{0.6 * 109, 0.9 * 109}},
	{"rag", true, 2 * time.Minute, []float64{0.6 * 310, 0.9 * 310, 330}}, // and beyond the knee, where token-load wins
	{"mixed", false, 20 * time.Minute, []float64{0.6 * 4.07, 0.9 * 4.07}},
	{shifting, false, 16 * time.Minute, []float64{0.6 * 0.898, 0.9 * 0.898}},
}

// shifting is the workload that is also judged by halves: in the first one chat,
// then code; in the second one retrieval, then reasoning.
const shifting = "shifting"

// allCases are all worlds at all loads, and halves.
func allCases() ([]studied, error) {
	engines, err := physics.Named(profile)
	if err != nil {
		return nil, err
	}
	valve, err := advise.NewValve(engines, policy.Defaults().MaxTTFTPenalty)
	if err != nil {
		return nil, err
	}
	var out []studied
	for _, w := range worlds {
		spec, err := workload.Named(w.name)
		if err != nil {
			return nil, err
		}
		if w.length > 0 {
			spec.Duration = w.length
		}
		for _, load := range w.loads {
			c := studied{name: w.name, load: load, unit: spec.Unit, single: w.single, engines: engines, valve: valve}
			c.plan = func(seed uint64) workload.Plan { return spec.Sessions(seed, load) }
			out = append(out, c)
			if w.name != shifting {
				continue
			}
			for i, name := range []string{"shifting, first half", "shifting, second half"} {
				h := c
				h.name, h.single = name, true
				from := time.Duration(i) * w.length / 2
				h.plan = func(seed uint64) workload.Plan { return part(spec.Sessions(seed, load), from, from+w.length/2) }
				out = append(out, h)
			}
		}
	}
	return out, nil
}

// part is the sessions of a plan that come from one time to another, as a plan of
// its own.
func part(plan workload.Plan, from, to time.Duration) workload.Plan {
	all := plan.Sessions
	plan.Sessions = func(yield func(workload.Session) bool) {
		index := 0
		for s := range all {
			if s.At >= to {
				return
			}
			if s.At < from {
				continue
			}
			s.At, s.Index = s.At-from, index
			index++
			if !yield(s) {
				return
			}
		}
	}
	plan.Stages = []workload.Stage{{Load: plan.Stages[0].Load, From: plan.Warmup, To: to - from}}
	return plan
}

func (c *studied) study(seeds []uint64) *advise.Study {
	return &advise.Study{
		Plan: c.plan, Profile: c.engines, Endpoints: endpoints, Engines: advise.Nearly(c.engines, endpoints, workload.Slowdown{}, 0),
		Seeds: seeds, Valve: c.valve,
	}
}
