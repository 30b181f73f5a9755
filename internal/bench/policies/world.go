package main

import (
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/trace"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

// group is the worlds that a bar is about.
type group string

const (
	single        group = "single"
	mixed         group = "mixed"
	shifting      group = "shifting"
	heterogeneous group = "heterogeneous"
	degraded      group = "degraded"
	replayed      group = "traces"
)

// groups are all, in the order of the report.
var groups = []group{single, mixed, shifting, heterogeneous, degraded, replayed}

// world is one kind of traffic and the fleet that serves it.
type world struct {
	name  string
	group group
	unit  string

	spec   workload.Spec
	loads  []float64 // that are judged, ascending
	knee   float64   // 0: the loads are published ones, not shares of it
	shares []float64 // of the knee, where there is one

	// Of a trace: what is learned from comes before what is judged.
	learned, judged []trace.Item
}

// traced says that the world replays a trace.
func (w *world) traced() bool { return len(w.judged) > 0 }

const (
	endpoints = 10
	profile   = "qwen3-32b-h100-tp2-routing" // what the router believes of all engines
	classFast = "h100"
	classSlow = "h100-slow" // of heterogeneous fleets: the router knows that it is slower
)

// traffic is what is asked at a load.
func (w *world) traffic(seed uint64, load float64, judged bool) workload.Plan {
	if !w.traced() {
		return w.spec.Sessions(seed, load)
	}
	items := w.learned
	if judged {
		items = w.judged
	}
	return replay(items, load)
}

// config is the world as the simulator runs it, but for the policy. The fleet is
// that of the seed; the traffic may be another's.
func (w *world) config(fleetSeed, trafficSeed uint64, load float64, judged bool) (fleet.WorldConfig, error) {
	nominal, err := physics.Named(profile)
	if err != nil {
		return fleet.WorldConfig{}, err
	}
	slow := w.spec.Slow
	c := fleet.WorldConfig{
		Seed: trafficSeed, Plan: w.traffic(trafficSeed, load, judged),
		Router: fleet.RouterConfig{Profiles: map[string]physics.Profile{classFast: nominal}},
	}
	if slow.Share > 0 && slow.From == 0 {
		c.Router.Profiles[classSlow] = nominal.Slowed(slow.Factor)
	}
	for i := range endpoints {
		e := fleet.EngineSpec{Class: classFast}
		if i >= endpoints-slow.Endpoints(endpoints) {
			if slow.From == 0 {
				e.Class = classSlow
			} else {
				e.SlowFrom, e.SlowFactor = w.degrades(), slow.Factor
			}
		}
		e.Profile, e.Overhead = fleet.Perturb(c.Router.Profiles[e.Class], fleetSeed, i)
		c.Engines = append(c.Engines, e)
	}
	return c, nil
}

// degrades is when an endpoint of the world becomes slow; 0 is never.
func (w *world) degrades() time.Duration {
	return time.Duration(w.spec.Slow.From * float64(w.spec.Duration))
}

// window is what is judged of a run of a plan: what was sent after its warm-up
// and, of a degraded fleet, after it degraded.
func (w *world) window(p *workload.Plan) fleet.Window {
	judged := fleet.Window{From: p.Warmup, To: never}
	if len(p.Stages) > 0 {
		judged = fleet.Window{From: p.Stages[0].From, To: p.Stages[len(p.Stages)-1].To}
	}
	judged.From = max(judged.From, w.degrades())
	return judged
}

const never = time.Duration(1<<63 - 1)

// arm is one way to route.
type arm struct {
	name   string
	policy string
	// says is who is asked for forecasts: nobody, the prior, or the bundle.
	says oracle

	ablated bool // predicted without something: half of the seeds
	change  func(*fleet.RouterConfig)
}

type oracle uint8

const (
	nobody oracle = iota
	prior
	forests
)

// The arms that others are compared with.
const (
	tokenLoad     = policy.TokenLoad
	activeRequest = policy.ActiveRequest
	predicted     = policy.Predicted
	priorAlone    = "predicted, prior alone"
)

var arms = []arm{
	{name: tokenLoad, policy: policy.TokenLoad},
	{name: activeRequest, policy: policy.ActiveRequest},
	{name: predicted, policy: policy.Predicted, says: forests},
	{name: priorAlone, policy: policy.Predicted, says: prior},
	{name: policy.PredictorBlend, policy: policy.PredictorBlend, says: forests},
	{name: policy.WeightedBlend, policy: policy.WeightedBlend},
	{name: policy.RoundRobin, policy: policy.RoundRobin},
}

// route makes a world's router that of an arm, with a bundle that may be nil.
func (a *arm) route(c *fleet.RouterConfig, bundle fleet.Forecaster) {
	c.Policy = a.policy
	switch a.says {
	case prior:
		c.Forecaster = fleet.PriorForecaster{}
	case forests:
		c.Forecaster = bundle
	}
	if a.change != nil {
		a.change(c)
	}
}

// evaluator is a bundle as the simulator asks it.
type evaluator func(vectors []feature.Vector, out []feature.Forecast)

// Forecast asks it.
func (e evaluator) Forecast(vectors []feature.Vector, out []feature.Forecast) { e(vectors, out) }
