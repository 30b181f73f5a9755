package main

import (
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

// arms are what is compared, in the order of every table.
var arms = [4]arm{
	{name: "k8s", policy: policy.Random, direct: true},
	{name: "weighted-blend", policy: policy.WeightedBlend},
	{name: "token-load", policy: policy.TokenLoad},
	{name: "active-request", policy: policy.ActiveRequest},
}

// Indices into arms.
const (
	k8s = iota
	blend
	tokenLoad
	activeRequest
)

type arm struct {
	name   string
	policy string
	direct bool // no gateway stands between client and engine: a service picks for each connection, at random
}

// world is everything about engines, router and clients that an ablation can turn.
type world struct {
	profile  physics.Profile
	options  fleet.Options
	balanced bool          // the Kubernetes arm is asked for every request, in turn
	alone    bool          // clients share no process of the load generator
	own      bool          // conversations and lengths are drawn here
	start    time.Duration // over which all requests of a closed loop are scheduled
	patient  bool          // clients never give up
	indexLag time.Duration // until the router's index learns of a decision
	gateway  time.Duration // that a first token is late for each request on its way through the gateway
}

// scrapeInterval is how often the published router reads the engines' metrics: the
// default of its --refresh-metrics-interval.
const scrapeInterval = 50 * time.Millisecond

// settings are the published router's: it knows stickiness as a share of the prompt
// alone.
func settings() policy.Settings {
	s := policy.Defaults()
	s.StickySaved = feature.Seconds(math.Inf(1))
	return s
}

// cache is what an engine's KV cache holds, in tokens: the upper end of the published
// 200,000 to 300,000.
const cache = 300_000

// reality is the world with all mechanisms.
func reality(p physics.Profile) world {
	p.KVCapacityTokens = cache
	return world{profile: p, start: time.Second, indexLag: 10 * time.Millisecond, gateway: 3 * time.Millisecond}
}

// mechanism is one fact that the published numbers rest on, and the world without
// it.
type mechanism struct {
	Name    string `json:"name"`
	Fact    string `json:"fact"`
	without func(*world)
}

var mechanisms = []mechanism{
	{"step-end-metrics", "Engines publish queue and KV metrics at the end of a step, so a scrape is up to one long step (0.5 s) old. Without: they are as of the scrape.",
		func(w *world) { w.options.LiveMetrics = true }},
	{"per-connection", "A Kubernetes service balances connections, at random. A process of the load generator asks on the one that has been idle longest (aiohttp's pool), and an engine closes one that was idle for 5 s (vLLM's default). Without: requests in turn.",
		func(w *world) { w.balanced = true }},
	{"workers", "The load generator has 6 processes, 64 on b2b-saas. Each sends its conversations round by round and holds a place for a turn whose conversation still waits for an answer, so that it waits for the slowest (inference-perf, concurrent load). Without: each client by itself, on a connection of its own.",
		func(w *world) { w.alone = true }},
	{"published-draws", "The load generator's seed was the number of clients, so its draws can be made again: the conversations here are those that were sent. Engines read 4.7 % more tokens than were drawn, since text of random tokens is split otherwise. Without: own draws.",
		func(w *world) { w.own = true }},
	{"shared-prefix-decode", "Decoding sequences that share a prefix read it once. Without: each reads its whole context.",
		func(w *world) { w.options.SeparateReads = true }},
	{"physical-c", "Attention in prefill costs 1.7 ns per token and token of context. Without: 0.6 ns, which a fit to short prompts gives and the arithmetic of the hardware (1.06 ns) forbids.",
		func(w *world) { w.profile.Coefficients.C = 0.6e-9 }},
	{"cache", "A cache holds 300,000 tokens, the upper end of what is published (200,000 to 300,000), chosen after seeing the cells. Without: 262,144.",
		func(w *world) { w.profile.KVCapacityTokens = 262_144 }},
	{"time-outs", "Clients give up after 300 s or 600 s. Without: never.",
		func(w *world) { w.patient = true }},
	{"synchronised-start", "The load generator schedules all requests of a closed loop within one second, so that the clients begin within a sixth or a third of one. Without: over 30 s.",
		func(w *world) { w.start = 0 }},
	{"index-lag", "The published router updates its prefix index in the background. That this takes 10 ms is an estimate, from the most requests on one endpoint under the blend on reasoning (column run_max: 36, 62 and 77 at 50, 150 and 250 clients; simulated 34, 69 and 89). Without: at once.",
		func(w *world) { w.indexLag = 0 }},
	{"gateway", "Through the gateway a first token is 3 ms late for each request on its way: the published difference between the client's and the engines' median TTFT, 0.1 to 1.1 s at 40 to 300 requests on their way on reasoning. Without: nothing.",
		func(w *world) { w.gateway = 0 }},
}

// slowStart is over how long the clients of a closed loop begin where nothing makes
// them begin together.
const slowStart = 30 * time.Second

// processes is the load generator's number of them (num_workers of its files).
func processes(workload string) int {
	if workload == "b2b-saas" {
		return 64
	}
	return 6
}

// plan is what is asked: at one load of a closed loop, or all stages of an open one.
func (w world) plan(spec workload.Spec, seed uint64, load float64) (workload.Plan, error) {
	if !w.alone {
		spec.Workers = processes(spec.Name)
	}
	if w.patient {
		spec.Timeout = 0
	}
	if spec.Ramp = slowStart; w.start > 0 && spec.Rounds > 0 {
		spec.Ramp = w.start / time.Duration(spec.Rounds)
	}
	var plan workload.Plan
	var err error
	switch {
	case !w.own:
		plan, err = spec.Published(seed, load)
	case spec.Closed:
		plan = spec.Sessions(seed, load)
	default:
		plan = spec.Climb(seed)
	}
	if !spec.Closed {
		plan = apart(plan)
	}
	return plan, err
}

// router is the arm's. The published one is told nothing of what engines had cached.
func (w world) router(a arm) fleet.RouterConfig {
	config := fleet.RouterConfig{Policy: a.policy, Settings: settings(), ScrapeInterval: scrapeInterval, IndexLag: w.indexLag, KeepBeliefs: true}
	switch {
	case !a.direct:
	case w.balanced:
		config.Policy = policy.RoundRobin
	case w.alone:
		config.Connections = fleet.PerClient
	default:
		config.Connections = fleet.PerWorker
	}
	return config
}

// drain is longer than any client waits.
const drain = 10 * time.Minute

// apart lets each stage begin after the one before has drained: the published way to
// run b2b-saas.
func apart(plan workload.Plan) workload.Plan {
	stages := plan.Stages
	begun := func(at time.Duration) (n time.Duration) {
		for _, s := range stages {
			if at >= s.From {
				n++
			}
		}
		return n
	}
	sessions := plan.Sessions
	plan.Sessions = func(yield func(workload.Session) bool) {
		for s := range sessions {
			s.At += begun(s.At) * drain
			if !yield(s) {
				return
			}
		}
	}
	plan.Stages = nil
	for _, s := range stages {
		shift := begun(s.From) * drain
		plan.Stages = append(plan.Stages, workload.Stage{Load: s.Load, From: s.From + shift, To: s.To + shift})
	}
	return plan
}
