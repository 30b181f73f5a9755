package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/workload"
)

// world is a fleet, its traffic, how it was routed when the log was written, and
// what else might have been done.
type world struct {
	name      string
	traffic   traffic
	share     float64 // of the load that the traffic's knee is
	endpoints int
	mechanism mechanism
	logged    setting
	targets   []target
}

// traffic is a workload, open loop.
type traffic struct {
	workload string
	knee     float64 // requests/s of ten endpoints
	length   int     // requests of a log

	// warm is how long it is asked before the log at least: until conversations
	// end as often as they begin, and nothing is left of the queues before caches
	// that were empty.
	warm time.Duration
	// block is how long a block of a switchback is at least: a burn-in of a third of it
	// is longer than nearly all requests.
	block  time.Duration
	shared bool // it lives on caches: whoever scatters its prefixes brings the fleet down
}

// Knees are those of packages trial and policies, of plain endpoints; those of
// b2b-saas and code-generation, which are published as closed loops or ladders,
// are loads at which the better matched configuration just holds.
var (
	mixed         = traffic{workload: "mixed", knee: 4.42, length: 3000}
	chat          = traffic{workload: "interactive-chat", knee: 66, length: 4000, warm: 150 * time.Second, block: time.Minute}
	rag           = traffic{workload: "rag", knee: 306, length: 6000, warm: 30 * time.Second, shared: true}
	b2b           = traffic{workload: "b2b-saas", knee: 42, length: 4000, block: 2 * time.Minute, shared: true}
	code          = traffic{workload: "code-generation", knee: 0.9, length: 3000}
	heterogeneous = traffic{workload: "heterogeneous", knee: 3.42, length: 3000}
)

// mechanism is what engines of a world have and a fitted model lacks.
type mechanism struct {
	name    string
	options fleet.Options
	speeds  float64 // times the load that plain endpoints serve
}

// The mechanisms. Lengths of accepted guesses are of the order of published ones
// for drafts of three to five tokens: code is guessed best.
var (
	none        = mechanism{"none", fleet.Options{}, 1}
	async       = mechanism{"asynchronous scheduling", fleet.Options{AsyncScheduling: true}, 1}
	speculation = mechanism{"speculative decoding", fleet.Options{Acceptance: map[string]float64{
		"interactive-chat": 1.8, "code-generation": 2.8, "reasoning": 2.2, "b2b-saas": 2, "rag": 1.5,
	}}, 1.3}
	threshold = mechanism{"prefill threshold", fleet.Options{LongPrefillTokens: 512}, 1}
	ranks     = mechanism{"data-parallel ranks", fleet.Options{Ranks: 2}, 2}
	offload   = mechanism{"offload", fleet.Options{OffloadTokens: 400_000, OffloadSeconds: 5e-6}, 1}
	separate  = mechanism{"separate reads", fleet.Options{SeparateReads: true}, 0.9}
)

// plain reports whether a fitted model can be right about the world.
func (w *world) plain() bool { return w.mechanism.name == none.name }

const (
	profile   = "qwen3-32b-h100-tp2-routing" // what the router believes of all endpoints
	classFast = "h100"
	classSlow = "h100-slow" // of heterogeneous fleets: the router knows that it is slower
)

// rate is the load in requests/s.
func (w *world) rate() float64 {
	return w.share * w.traffic.knee * w.mechanism.speeds * float64(w.endpoints) / 10
}

// period is a plan's parts: what caches fill in, the log, and as much traffic
// after it as the truth about experiments is told of, and as an experiment takes.
type period struct{ begins, logEnds, longEnds, ends time.Duration }

const (
	warmShare = 0.3 // of the log's length, before it begins, at least
	longLogs  = 2   // lengths of the log, of which the first is its own, that long runs take
	logs      = 6   // and that an experiment takes at least
)

func (w *world) period() period {
	log := time.Duration(float64(w.traffic.length) / w.rate() * float64(time.Second)).Round(time.Second)
	begins := max(w.traffic.warm, time.Duration(warmShare*float64(log)).Round(time.Second))
	return period{begins, begins + log, begins + longLogs*log, begins + max(logs*log, 2*pairsOfBlocks*w.traffic.block)}
}

// arrivals is how long requests come in a run that is looked at until a time: a
// little longer, so that nothing that is looked at winds down.
func (p *period) arrivals(until time.Duration) time.Duration {
	return until + time.Duration(warmShare*float64(p.logEnds-p.begins))
}

// plan is the traffic, and which endpoints it wants slow.
func (w *world) plan(seed uint64, length time.Duration) (workload.Plan, workload.Slowdown, error) {
	spec, err := workload.Named(w.traffic.workload)
	if err != nil {
		return workload.Plan{}, workload.Slowdown{}, fmt.Errorf("world %s: %w", w.name, err)
	}
	spec.Duration = length
	plan := spec.Open(seed, w.rate())
	plan.Warmup = w.period().begins
	return plan, spec.Slow, nil
}

// config is the world with nobody who decides yet. The seed draws the engines,
// plan draws traffic, run draws noise, ties and exploration.
func (w *world) config(s seeds, length time.Duration) (fleet.WorldConfig, error) {
	nominal, err := physics.Named(profile)
	if err != nil {
		return fleet.WorldConfig{}, fmt.Errorf("world %s: %w", w.name, err)
	}
	plan, slow, err := w.plan(s.traffic, length)
	if err != nil {
		return fleet.WorldConfig{}, err
	}
	c := fleet.WorldConfig{
		Seed: s.run, Plan: plan, Router: fleet.RouterConfig{Profiles: map[string]physics.Profile{classFast: nominal}},
	}
	if slow.Share > 0 {
		c.Router.Profiles[classSlow] = nominal.Slowed(slow.Factor)
	}
	for i := range w.endpoints {
		e := fleet.EngineSpec{Class: classFast, Options: w.mechanism.options}
		if i >= w.endpoints-slow.Endpoints(w.endpoints) {
			e.Class = classSlow
		}
		e.Profile, e.Overhead = fleet.Perturb(c.Router.Profiles[e.Class], s.engines, i)
		c.Engines = append(c.Engines, e)
	}
	return c, nil
}

// seeds are what a run draws from: its engines, its traffic, and noise, ties and
// exploration.
type seeds struct{ engines, traffic, run uint64 }

// allWorlds are the first so many of them, 0 for all, with so many targets each.
func allWorlds(most, targets int) []*world {
	var all []*world
	add := func(t traffic, share float64, endpoints int, m mechanism) {
		all = append(all, &world{traffic: t, share: share, endpoints: endpoints, mechanism: m})
	}
	// The order is such that the first few are a fair sample.
	add(mixed, 0.6, 4, none)
	add(chat, 0.85, 6, async)
	add(b2b, 0.35, 10, offload)
	add(rag, 0.55, 10, none)
	add(mixed, 0.6, 6, speculation)
	add(chat, 0.9, 4, ranks)
	add(code, 0.6, 6, none)
	add(mixed, 0.6, 4, threshold)
	add(chat, 0.9, 4, none)
	add(mixed, 0.6, 4, ranks)
	add(rag, 0.5, 10, threshold)
	add(b2b, 0.35, 10, none)
	add(mixed, 0.7, 10, async)
	add(heterogeneous, 0.5, 6, none)
	add(mixed, 0.7, 6, offload)
	add(chat, 0.85, 4, speculation)
	add(mixed, 0.7, 10, none)
	add(code, 0.4, 4, ranks)
	add(code, 0.6, 6, threshold)
	add(chat, 0.8, 10, none)
	add(b2b, 0.35, 10, async)
	add(code, 0.6, 6, speculation)
	add(rag, 0.45, 10, none)
	add(heterogeneous, 0.5, 6, speculation)
	add(code, 0.5, 6, offload)
	add(b2b, 0.35, 10, separate)
	for i, w := range all {
		w.name = fmt.Sprintf("%s, %d endpoints at %.0f %%, %s", w.traffic.workload, w.endpoints, 100*w.share, w.mechanism.name)
		w.logged = loggings[i%len(loggings)]
		ask := slices.DeleteFunc(w.logged.targets(), func(t target) bool { return w.traffic.shared && t.scatters() })
		for k := range min(targets, len(ask)) {
			w.targets = append(w.targets, ask[(i*targets+k)%len(ask)])
		}
	}
	if most > 0 {
		all = all[:min(most, len(all))]
	}
	return all
}
