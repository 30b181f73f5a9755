package fleet

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/ledger"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/prefix"
)

// Auto is the fallback that follows what binds, prefill or decode.
const Auto = "auto"

// RouterConfig is the router of a world. Zero fields mean the documented
// defaults of production.
type RouterConfig struct {
	Policy   string          // one of policy.Names()
	Fallback string          // of policies that forecast, without one; "": Auto
	Settings policy.Settings // the zero value: policy.Defaults()

	// Profiles is what the router believes of engines, by class; of classes
	// that are not listed it knows the engine's own profile.
	Profiles map[string]physics.Profile

	ScrapeInterval time.Duration // between two scrapes of an endpoint, give or take 10 %; 0: 1 s
	ScrapeDelay    time.Duration // until numbers that were asked for arrive
	ScrapeMaxAge   time.Duration // numbers older than this are not compared with fresh ones; 0: 10 s

	// IndexLag is how long after a decision the index learns of it; 0: with it,
	// as in production.
	IndexLag time.Duration
	// KeepBeliefs lets the index believe in what engines report not to have, as
	// production does not.
	KeepBeliefs bool

	Forecaster Forecaster // nil: there is no bundle, the fallback decides; it may be a Predictor
	Candidates int        // how many are forecast at most; 0: 16, below 0: all
	Canary     float64    // share of the requests that forecasts decide; 0: all

	Experiment *Experiment // nil: none

	// Objectives is what requests ask for, by class of traffic; those of
	// classes not listed ask for nothing.
	Objectives map[string]Objective

	// Changes hears of every change in whether forecasts may decide. nil:
	// nobody does.
	Changes func(correction.Change)

	// Connections says what is routed: requests, or the connections they
	// come on.
	Connections Connections

	// Without is for ablations.
	Without Without
}

// Objective is what a request asks of its router.
type Objective struct {
	SLO
	Priority int // below 0 it may be shed
}

// Connections says how often a choice is made.
type Connections uint8

const (
	// PerRequest chooses for every request.
	PerRequest Connections = iota
	// PerSession chooses for the first request of a session and sends the
	// others after it, as a layer 4 balancer does with clients that open a
	// connection for each conversation.
	PerSession
	// PerClient chooses once for each client of a closed loop, which keeps
	// its connection; in an open loop it is PerSession.
	PerClient
	// PerWorker chooses for a request for which its worker has no idle
	// connection; the one idle longest is used first, and none longer than the
	// 5 s after which vLLM closes it. It wants a plan with workers.
	PerWorker
)

const (
	defaultScrapeInterval = time.Second
	scrapeJitter          = 0.1
	defaultScrapeMaxAge   = 10 * time.Second
	defaultCandidates     = 16
)

// complete fills in defaults and reports what can't work.
func (c RouterConfig) complete() (RouterConfig, error) {
	if c.Settings == (policy.Settings{}) {
		c.Settings = policy.Defaults()
	}
	if c.Fallback == "" {
		c.Fallback = Auto
	}
	if c.ScrapeInterval == 0 {
		c.ScrapeInterval = defaultScrapeInterval
	}
	if c.ScrapeMaxAge == 0 {
		c.ScrapeMaxAge = defaultScrapeMaxAge
	}
	if c.Candidates == 0 {
		c.Candidates = defaultCandidates
	}
	if err := policy.Check(c.Policy); err != nil {
		return c, err
	}
	if c.Fallback != Auto {
		if err := policy.CheckFallback(c.Fallback); err != nil {
			return c, err
		}
	}
	if c.ScrapeInterval < 0 || c.ScrapeDelay < 0 || c.ScrapeMaxAge < 0 || c.IndexLag < 0 {
		return c, fmt.Errorf("scrape interval %v, delay %v, greatest age %v, index lag %v: want none below 0", c.ScrapeInterval, c.ScrapeDelay, c.ScrapeMaxAge, c.IndexLag)
	}
	if !(c.Canary >= 0 && c.Canary < 1) {
		return c, fmt.Errorf("canary %v: want a share from 0 and below 1", c.Canary)
	}
	if c.Experiment != nil && c.Canary > 0 {
		return c, fmt.Errorf("canary %v: want none beside an experiment", c.Canary)
	}
	var err error
	if c.Experiment, err = c.Experiment.complete(); err != nil {
		return c, err
	}
	for class, p := range c.Profiles {
		if err := p.Check(); err != nil {
			return c, fmt.Errorf("class %s: %w", class, err)
		}
	}
	for class, o := range c.Objectives {
		if o.TTFT < 0 || o.TPOT < 0 {
			return c, fmt.Errorf("class %s: objectives of %v and %v: want none below 0", class, o.TTFT, o.TPOT)
		}
	}
	return c, nil
}

// router is what package route is to a real fleet: it holds the same ledger,
// index and corrections, reads them in the same order and gives the same Input
// to policy.Decide. Only the clock is virtual, tokens need no estimating, and
// nothing fails.
type router struct {
	config RouterConfig
	block  float64 // tokens of a block of the index

	ledger    *ledger.Ledger
	index     *prefix.Index
	turns     prefix.Answers
	targets   []*target // ordered by id
	output    correction.Output
	demand    correction.Demand
	coverage  correction.Coverage
	guard     correction.Guard
	predictor Predictor // the config's forecaster, if it is one
	seeds     *rand.PCG
	turn      uint64
	late      []claim // that the index has not learned of
	tried     string  // the design of the experiment, as rows carry it; empty: none
	part      part    // of the experiment that the last decision has
	forced    int     // forks: where the next decision sends its request; below 0: where it says

	// One decision's memory, used again.
	input     policy.Input
	views     views
	choice    policy.Choice
	shortlist policy.Shortlist
	matches   []int32 // by slot of the index
	asked     []int   // candidates with a vector
	vectors   []feature.Vector
	answers   []feature.Forecast // as they were given
	tempered  []feature.Forecast // the same as decisions use them
	digester  *prefix.Digester   // of rows

	mirrors []*ledger.Mirror // of the other routers, by number; its own is empty

	tell func(word) // what other routers should know; nil: there is none to hear it

	always bool        // tests: describe every load for every decision
	phase  func(phase) // tests: told where the time of a decision goes
}

// phase is a part of a decision's work.
type phase uint8

const (
	outside  phase = iota
	viewing        // describing every candidate
	deciding       // policy.Decide
)

// enter says what the router works at from now on.
func (r *router) enter(p phase) {
	if r.phase != nil {
		r.phase(p)
	}
}

// target is what the router knows of one endpoint.
type target struct {
	id      string
	class   string
	slot    int // in the prefix index
	profile physics.Profile
	speed   correction.Speed
	clock   correction.Clock
	offset  correction.Offset
	chosen  int
	streams streams // in flight here

	waiting, running, kvUsed float64   // as last scraped; NaN: never
	scrapedAt                time.Time // when these were asked for
	kvCapacity               float64   // tokens, as the engine said; NaN: not yet
	number                   int       // in router.targets
	stale                    bool      // something changed since it was last described
	coldAt                   time.Time // when it was last given a request that nobody held a prefix of; zero: never
}

// query is all that the router is told of a request. How much it will
// generate is not in it.
type query struct {
	promptTokens int
	chain        []uint64 // of the prompt's full blocks
	asks         Objective
}

func newRouter(config RouterConfig, seeds *rand.PCG, blockTokens int, now time.Time) *router {
	predictor, _ := config.Forecaster.(Predictor)
	return &router{
		config: config, predictor: predictor, tried: config.design(),
		block:  float64(blockTokens),
		ledger: ledger.New(),
		index:  prefix.New(prefix.Config{BlockBytes: blockTokens, TokensPerByte: 1}),
		demand: correction.NewDemand(now),
		guard:  correction.NewGuard(correction.DefaultLimits(), now),
		seeds:  seeds,
		forced: -1,
	}
}

// meet adds an endpoint. Endpoints must be met in the order of their ids.
func (r *router) meet(id, class string, own physics.Profile) {
	p, ok := r.config.Profiles[class]
	if !ok {
		p = own
	}
	t := &target{
		id: id, class: class, slot: r.index.Slot(id), profile: p, number: len(r.targets),
		waiting: feature.Unknown, running: feature.Unknown, kvUsed: feature.Unknown, kvCapacity: feature.Unknown,
	}
	r.index.SetCapacity(t.slot, float64(p.KVCapacityTokens), 1)
	r.targets = append(r.targets, t)
	r.views.known = false
}

// scraped takes in what an endpoint said of itself when asked at a time.
func (r *router) scraped(i int, m Metrics, kvCapacity float64, at time.Time) {
	t := r.targets[i]
	r.changed(t)
	t.waiting, t.running, t.kvUsed, t.scrapedAt = float64(m.Waiting), float64(m.Running), m.KVUsed, at
	if t.kvCapacity != kvCapacity {
		t.kvCapacity = kvCapacity
		r.index.SetCapacity(t.slot, kvCapacity, 1)
	}
}

// decide chooses an endpoint for q and charges c there, in one step, and
// returns its number, which is below 0 for one that is shed. A request that
// belongs to a connection goes where that leads: stuck is the endpoint's number,
// or below 0 for none.
func (r *router) decide(q *query, c *call, stuck int, now time.Time) (int, error) {
	r.enter(viewing)
	peak := r.view(q, now)
	r.enter(outside)
	in := &r.input
	if stuck < 0 {
		in.Forecasts = r.forecast(now, c.late)
		if in.Fallback == Auto {
			in.Fallback = fallback(r.demand.Bound(now, peak))
		}
		in.Canary = r.config.Canary
		in.Seed = r.seeds.Uint64()
		in.Turn = r.turn
		r.turn++
		r.enter(deciding)
		err := policy.Decide(in, &r.choice)
		r.enter(outside)
		if in.Canary > 0 {
			r.part = r.tossed(&r.choice)
		}
		if err != nil {
			return 0, err
		}
		stuck = r.choice.Index
		if r.forced >= 0 {
			c.ticket.chosen, stuck = stuck, r.forced
		} else if r.choice.Shed {
			return -1, nil
		}
		c.ticket.forecast, c.ticket.policy = r.choice.Forecasts[stuck], r.choice.Policy
	} else {
		c.ticket.forecast = feature.NoForecast
	}
	r.charge(q, c, stuck, now)
	return stuck, nil
}

// fallback is the matched configuration for traffic that is bound so.
func fallback(b correction.Bound) string {
	switch b {
	case correction.PrefillBound:
		return policy.TokenLoad
	case correction.DecodeBound:
		return policy.ActiveRequest
	}
	return policy.CombinedLoad
}
