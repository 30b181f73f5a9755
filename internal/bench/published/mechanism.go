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
	// A Kubernetes service picks an endpoint for each connection, at random, and
	// the load generator keeps one for each of its clients.
	{name: "k8s", policy: policy.Random, connections: fleet.PerClient, direct: true},
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
	name        string
	policy      string
	connections fleet.Connections
	direct      bool // no gateway stands between client and engine
}

// world is everything about engines, router and clients that an ablation can turn.
type world struct {
	profile  physics.Profile
	options  fleet.Options
	balanced bool          // the Kubernetes arm is asked for every request, in turn
	start    time.Duration // over which the clients of a closed loop begin
	patient  bool          // clients never give up
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

// reality is the world with all mechanisms.
func reality(p physics.Profile) world {
	return world{profile: p, start: 2 * time.Second, gateway: 3 * time.Millisecond}
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
	{"per-connection", "A Kubernetes service balances connections, and each client keeps its own. Without: requests in turn.",
		func(w *world) { w.balanced = true }},
	{"shared-prefix-decode", "Decoding sequences that share a prefix read it once. Without: each reads its whole context.",
		func(w *world) { w.options.SeparateReads = true }},
	{"physical-c", "Attention in prefill costs 1.7 ns per token and token of context. Without: 0.6 ns, which a fit to short prompts gives and the arithmetic of the hardware (1.06 ns) forbids.",
		func(w *world) { w.profile.Coefficients.C = 0.6e-9 }},
	{"time-outs", "Clients give up after 300 s or 600 s. Without: never.",
		func(w *world) { w.patient = true }},
	{"synchronised-start", "The clients of a closed loop begin within 2 s, which was chosen after seeing the cells: with 0 s the blend herds more than published, with 4 s less. Without: over 30 s.",
		func(w *world) { w.start = 30 * time.Second }},
	{"gateway", "Through the gateway a first token is 3 ms late for each request on its way: the published difference between the client's and the engines' median TTFT, 0.1 to 1.1 s at 40 to 300 requests on their way on reasoning. Without: nothing.",
		func(w *world) { w.gateway = 0 }},
}

// drain is longer than any client waits.
const drain = 10 * time.Minute

// climb is the published way to run b2b-saas: all stages in one run, each after
// the one before has drained.
func climb(spec workload.Spec, seed uint64) workload.Plan {
	plan := spec.Climb(seed)
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
