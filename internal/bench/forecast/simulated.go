package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/trainer/learn"
)

// scenario is a fleet and what it is asked. Its engines are only nearly what
// the router believes (fleet.Perturb): every coefficient is off by its own factor
// from 0.8 to 1.25, and every request is held for 20 to 100 ms that no prior
// knows of.
type scenario struct {
	name      string
	workload  string
	engines   int
	slow      int     // of its engines are of a class that takes slowness times as long, as the router knows
	newcomers int     // join joinsAfter the split, of a class that nobody has seen
	knee      float64 // requests/s
	// Shares of the knee, one after another: of what the router logs for the
	// trainer, and of what it then serves with what was learned.
	learned, judged []float64
	each            time.Duration
}

const (
	slowness  = 2.5
	classFast = "h100"
	classSlow = "h100-slow"
)

// The knee of a fleet is the load above which more requests come than are
// answered: mixed traffic then waits for room in the cache, which depends on how
// long others' answers turn out; retrieval waits for prefill, which a router
// knows. Found with seed 101, which judges nothing, from minutes at each of
// several loads with the prior alone deciding.
const (
	kneeMixed         = 4.7
	kneeHeterogeneous = 3.7
	kneeRetrieval     = 32.0
)

var (
	// dailyLoads go up and down below the knee, as a day does.
	dailyLoads = []float64{0.4, 0.6, 0.8, 0.5}
	lowLoads   = []float64{0.3, 0.45, 0.6, 0.7}
	highLoads  = []float64{0.9, 1, 1.1, 1.2, 1.3}
)

var scenarios = []scenario{
	{name: "mixed", workload: "mixed", engines: 10, knee: kneeMixed, learned: dailyLoads, judged: dailyLoads, each: 450 * time.Second},
	{name: "heterogeneous", workload: "heterogeneous", engines: 10, slow: 5, knee: kneeHeterogeneous, learned: dailyLoads, judged: dailyLoads, each: 600 * time.Second},
	{name: "growing", workload: "heterogeneous", engines: 10, slow: 5, knee: kneeHeterogeneous, learned: lowLoads, judged: highLoads, each: 240 * time.Second},
	{name: "growing_prefill", workload: "rag", engines: 4, slow: 2, knee: kneeRetrieval, learned: lowLoads, judged: highLoads, each: 60 * time.Second},
}

// world is a scenario as the simulator runs it.
func (s scenario) world(seed uint64, f fleet.Forecaster) (fleet.WorldConfig, error) {
	nominal, err := physics.Named(routerProfile)
	if err != nil {
		return fleet.WorldConfig{}, err
	}
	spec, err := workload.Named(s.workload)
	if err != nil {
		return fleet.WorldConfig{}, err
	}
	var loads []float64
	for _, share := range slices.Concat(s.learned, s.judged) {
		loads = append(loads, share*s.knee)
	}
	c := fleet.WorldConfig{
		Seed: seed, Plan: spec.Rising(seed, loads, s.each), Sink: func(fleet.Outcome) {},
		Router: fleet.RouterConfig{
			Policy: policy.Predicted, Forecaster: f,
			Profiles: map[string]physics.Profile{classFast: nominal, classSlow: nominal.Slowed(slowness)},
		},
	}
	for i := range s.engines {
		class := classFast
		if i < s.slow {
			class = classSlow
		}
		c.Engines = append(c.Engines, engine(c.Router.Profiles[class], class, seed, i))
	}
	c.Router.Profiles[classHalf] = nominal
	for i := range s.newcomers {
		e := engine(nominal.Slowed(halfSpeed), classHalf, seed, s.engines+i)
		e.JoinsAt = s.split() + joinsAfter
		c.Engines = append(c.Engines, e)
	}
	return c, nil
}

// engine is one that is only nearly what the router believes.
func engine(p physics.Profile, class string, seed uint64, index int) fleet.EngineSpec {
	p, overhead := fleet.Perturb(p, seed, index)
	return fleet.EngineSpec{Profile: p, Class: class, Overhead: overhead}
}

// split is when the router is given what was learned.
func (s scenario) split() time.Duration { return time.Duration(len(s.learned)) * s.each }

// served is a predictor that has nothing to say until it is given a bundle.
type served struct{ evaluator fleet.Forecaster }

// Forecast leaves what is there while there is no bundle.
func (s *served) Forecast(vectors []feature.Vector, out []feature.Forecast) {
	if s.evaluator != nil {
		s.evaluator.Forecast(vectors, out)
	}
}

// evaluator is a bundle as the simulator asks it.
type evaluator func(vectors []feature.Vector, out []feature.Forecast)

// Forecast asks it.
func (e evaluator) Forecast(vectors []feature.Vector, out []feature.Forecast) { e(vectors, out) }

// logged is what a run of a scenario left behind.
type logged struct {
	learned    []learn.Sample
	judged     []feature.Row // decided with the bundle, in order of decision
	contenders []contender
	bundle     fleet.Forecaster
}

// run logs a scenario as production would: the matched configuration decides
// until, at the split, what was logged becomes a bundle, which decides from
// then on, with the router's own correction and exploration. Only outcomes
// known at the split are learned from.
func (s scenario) run(ctx context.Context, seed uint64) (logged, error) {
	var (
		out    logged
		f      served
		rows   []feature.Row
		failed error
	)
	c, err := s.world(seed, &f)
	if err != nil {
		return out, err
	}
	c.Rows = func(r *feature.Row) { rows = append(rows, *r) }
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c.Observer = func(sample *fleet.Sample) {
		if f.evaluator != nil || failed != nil || sample.At < s.split() {
			return
		}
		inOrder(rows)
		for i := range rows {
			if sample, ok := learn.SampleOf(&rows[i]); ok {
				out.learned = append(out.learned, sample)
			}
		}
		var b *bundle.Bundle
		if out.contenders, b, failed = contend(ctx, out.learned, seed); failed == nil {
			var e *bundle.Evaluator
			if e, failed = b.Evaluator(); failed == nil {
				f.evaluator = evaluator(e.Evaluate)
			}
		}
		if failed != nil {
			stop()
		}
	}
	_, err = fleet.Simulate(ctx, c)
	if failed != nil {
		err = failed
	}
	if err != nil {
		return out, fmt.Errorf("%s, seed %d: %w", s.name, seed, err)
	}
	out.bundle = f.evaluator
	inOrder(rows)
	for _, r := range rows {
		if r.Forecast.Known() {
			out.judged = append(out.judged, r)
		}
	}
	return out, nil
}

// inOrder sorts rows by decision.
func inOrder(rows []feature.Row) {
	slices.SortFunc(rows, func(a, b feature.Row) int { return slices.Compare(a.Decision[:], b.Decision[:]) })
}
