package advise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

// Policies are what is chosen among.
var Policies = []string{policy.TokenLoad, policy.ActiveRequest, policy.Predicted}

// observed decides while it is observed what binds: it counts both loads.
const observed = policy.CombinedLoad

// Study is traffic and a fleet to be advised.
type Study struct {
	// Plan is the traffic with a seed; a trace's is the same with each.
	Plan func(seed uint64) workload.Plan

	// Profile is what prefill and decoding take, by which use is counted, and
	// Endpoints how many engines it is shared by.
	Profile   physics.Profile
	Endpoints int

	// Engines are those that are simulated with a seed.
	Engines func(seed uint64) Fleet

	Seeds []uint64 // at least 2 for intervals

	// Valve is what the simulated routers are given.
	Valve Valve

	// Logged is what real requests took of the real fleet; nil: it is simulated.
	Logged *Usage

	// Doubt says in half a sentence why simulation is not to be believed; then what
	// binds decides alone.
	Doubt string
}

// Fleet is engines, what the router believes of them by class (of classes that are
// not listed it knows what is true), and what requests ask for by class of traffic.
type Fleet struct {
	Engines  []fleet.EngineSpec
	Believed map[string]physics.Profile
	Asked    map[string]fleet.Objective
}

// Check reports what cannot be simulated.
func (s *Study) Check() error {
	switch {
	case s.Plan == nil || s.Engines == nil:
		return errors.New("a study needs traffic and engines")
	case len(s.Seeds) == 0:
		return errors.New("a study needs at least one seed")
	case s.Endpoints < 1:
		return fmt.Errorf("%d endpoints: want at least 1", s.Endpoints)
	}
	return s.Profile.Check()
}

// Run is one simulation of a study.
type Run struct {
	sent   []sent // that count, by time
	hits   float64
	usage  *Usage
	warmup time.Duration
}

// sent is how one request fared.
type sent struct {
	at              time.Duration
	ttft, tpot, e2e float64 // seconds; of one that failed its client's patience
	failed          bool
	decoded         bool // it has a tpot
}

// Runs is how many simulations the study wants.
func (s *Study) Runs() int {
	n := len(s.Seeds) * len(Policies)
	if s.Logged == nil {
		n++
	}
	return n
}

// Run does simulation i of Runs. It keeps nothing in the study, so several can run
// at once.
func (s *Study) Run(ctx context.Context, i int) (Run, error) {
	if i == len(s.Seeds)*len(Policies) {
		return s.run(ctx, observed, s.Seeds[0])
	}
	return s.run(ctx, Policies[i%len(Policies)], s.Seeds[i/len(Policies)])
}

func (s *Study) run(ctx context.Context, name string, seed uint64) (Run, error) {
	plan, engines := s.Plan(seed), s.Engines(seed)
	c := fleet.WorldConfig{
		Seed: seed, Plan: plan, Engines: engines.Engines,
		Router: fleet.RouterConfig{Policy: name, Settings: s.Valve.settings(), Profiles: engines.Believed, Objectives: engines.Asked},
	}
	if policy.Forecasting(name) {
		c.Router.Forecaster = fleet.PriorForecaster{}
	}
	run := Run{warmup: plan.Warmup}
	if name == observed {
		run.usage = new(Usage)
		c.Rows = run.usage.Add
	}
	result, err := fleet.Simulate(ctx, c)
	if err != nil {
		return run, fmt.Errorf("%s with seed %d: %w", name, seed, err)
	}
	run.read(result, &plan)
	return run, nil
}

// read keeps what came of the requests that count.
func (r *Run) read(result *fleet.Result, plan *workload.Plan) {
	until := time.Duration(1<<63 - 1)
	if n := len(plan.Stages); n > 0 {
		until = plan.Stages[n-1].To
	}
	cached, prompts := 0, 0
	for i := range result.Requests {
		o := &result.Requests[i]
		if o.At < plan.Warmup || o.At >= until {
			continue
		}
		x := sent{at: o.At, ttft: o.TTFT.Seconds(), tpot: o.TPOT.Seconds(), e2e: o.E2E.Seconds(), decoded: o.TPOT > 0}
		if o.OutputTokens > 0 {
			cached, prompts = cached+o.CachedTokens, prompts+o.PromptTokens
		} else {
			x.ttft = plan.Timeout.Seconds()
		}
		if o.Status != feature.OK {
			x.failed, x.e2e = true, plan.Timeout.Seconds()
		}
		r.sent = append(r.sent, x)
	}
	slices.SortFunc(r.sent, func(a, b sent) int { return int(min(max(a.at-b.at, -1), 1)) })
	r.hits = float64(cached) / float64(max(prompts, 1))
}

// fared is what a run comes to.
type fared struct {
	e2e, ttftP50, ttftP90, tpotP90, failed float64
}

// between judges the requests that were sent from one time to another.
func (r *Run) between(from, to time.Duration) fared {
	var out fared
	var ttft, tpot []float64
	for _, x := range r.sent {
		if x.at < from || x.at >= to {
			continue
		}
		out.e2e += x.e2e
		ttft = append(ttft, x.ttft)
		if x.decoded {
			tpot = append(tpot, x.tpot)
		}
		if x.failed {
			out.failed++
		}
	}
	n := float64(len(ttft))
	out.e2e, out.failed = out.e2e/n, out.failed/n
	slices.Sort(ttft)
	slices.Sort(tpot)
	out.ttftP50, out.ttftP90, out.tpotP90 = at(ttft, 0.5), at(ttft, 0.9), at(tpot, 0.9)
	return out
}

// at is a quantile of sorted values; NaN of none.
func at(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return float64(feature.Unknown)
	}
	place := q * float64(len(sorted)-1)
	i := int(place)
	j := min(i+1, len(sorted)-1)
	return sorted[i] + (sorted[j]-sorted[i])*(place-float64(i))
}
