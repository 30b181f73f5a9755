package fleet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/workload"
)

// DefaultBlockTokens is the block of a router's index: 256 bytes of English
// text (prefix.DefaultBlockBytes).
const DefaultBlockTokens = 64

// WorldConfig is a fleet, a router before it, and what clients do to them.
type WorldConfig struct {
	Engines []EngineSpec // at least one
	Router  RouterConfig
	Plan    workload.Plan // endless ones need a Horizon
	Seed    uint64        // of everything but the plan

	Replicas Replicas // of the router; the zero value: one

	// Horizon is when the run ends at the latest; 0: when every request has
	// ended.
	Horizon time.Duration

	// BlockTokens is the block of the engines' caches and of the router's
	// index; 0: DefaultBlockTokens. Engines have smaller ones (16 in vLLM),
	// which take longer to simulate and change only how prefixes are rounded.
	BlockTokens int

	// Sink takes every outcome when its request ends. nil: they are kept in
	// the Result.
	Sink func(Outcome)

	// Rows takes the row of each request when it has ended, as production keeps
	// it of the endpoint chosen. It may keep it. nil: there are none.
	Rows func(*feature.Row)

	// Decisions takes the complete row of each choice that the router made, and
	// what came of it, when its request has ended: not in the order in which they
	// were made. It may keep both. nil: there are none.
	Decisions func(*feature.Decision, *feature.Outcome)

	// Observer sees the world every ObserveEvery (0: every second).
	Observer     func(*Sample)
	ObserveEvery time.Duration
}

// Random streams of a world's seed.
const (
	streamRouter  = 1
	streamScrapes = 2
	streamEngines = 1000 // plus the engine's number
)

// epoch is the wall-clock time at which a world begins: the router's packages
// tell moments, not durations.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// call is one request on its way.
type call struct {
	request  Request
	ticket   ticket
	replica  *replica
	client   *client
	turn     int
	endpoint int
	rank     int
	place    int // in world.live
	id       uint64
	open     bool
	late     bool // its forecasts did not come in time

	at, first time.Duration
	cached    int
	alone     time.Duration
	row       *feature.Row      // so far; nil: nobody wants it
	decision  *feature.Decision // nil: nobody wants it, or it was none
	chain     []uint64          // of prompt and answer
}

// deadline is when a client gives up. The call may long have ended and be
// another by then, so the number is compared.
type deadline struct {
	at   time.Duration
	id   uint64
	call *call
}

// world runs one WorldConfig. Everything that happens is an act of one of its
// actors: engines, scrapers, and a few that are there once.
type world struct {
	config    WorldConfig
	endpoints []*endpoint
	units     []unit
	replicas  []*replica // of the router
	turn      int        // whose it is among them, modulo their number
	words     []word     // on their way between them, by time
	content   content
	jitter    *rand.Rand
	next      func() (workload.Session, bool)
	workers   []*worker // of the plan

	now    time.Duration
	agenda *agenda
	// Numbers of the actors there are once; engines stand before them from 0,
	// then one scraper for each router and endpoint.
	actorScrape, actorChange, actorTimeout, actorWake, actorArrival, actorTick, actorSample, actorPark, actorProbe, actorShare, actorOutage int

	events    []Event // of the engine that acts: one memory for all stays in the processor's cache
	live      []*call
	parked    []*call // that wait for forecasts, by time
	free      []*call // ended, to be used again
	calls     uint64
	deadlines []deadline // by time
	late      []*client  // scratch: who gives up now
	wakes     wakes
	asked     uint64
	arriving  workload.Session
	awaiting  bool
	sessions  int // begun and not ended; workers keep no count
	untaken   int // tasks of all workers
	exhausted bool
	loadEnded time.Duration

	sent   int
	again  int // of them, those whose router died under the first
	ended  int
	last   time.Duration // end of a request
	result Result
	sample Sample
	fork   *fork              // nil: every request goes where the router sends it
	check  func(*world) error // tests: after every act
}

// unit is one engine as an actor.
type unit struct {
	engine   *Engine
	endpoint int
}

// Simulate runs a world to its end. It is deterministic: equal configurations
// give equal results, down to the byte.
//
// Errors: a configuration that can't work, by name; ctx's.
func Simulate(ctx context.Context, config WorldConfig) (*Result, error) {
	w, stop, err := newWorld(config)
	if err != nil {
		return nil, err
	}
	defer stop()
	return w.run(ctx)
}

func newWorld(config WorldConfig) (*world, func(), error) {
	switch {
	case len(config.Engines) == 0:
		return nil, nil, errors.New("a world needs at least one engine")
	case config.Plan.Sessions == nil:
		return nil, nil, errors.New("a world needs a plan with sessions")
	case config.Router.Connections == PerWorker && config.Plan.Workers <= 0:
		return nil, nil, errors.New("connections per worker want a plan with workers")
	case config.BlockTokens < 0 || config.Horizon < 0 || config.ObserveEvery < 0:
		return nil, nil, fmt.Errorf("block of %d tokens, horizon %v, observations every %v: want none below 0", config.BlockTokens, config.Horizon, config.ObserveEvery)
	}
	if config.BlockTokens == 0 {
		config.BlockTokens = DefaultBlockTokens
	}
	if config.ObserveEvery == 0 {
		config.ObserveEvery = time.Second
	}
	var err error
	if config.Router, err = config.Router.complete(); err != nil {
		return nil, nil, fmt.Errorf("router: %w", err)
	}
	w := &world{
		config:  config,
		content: content{block: config.BlockTokens, seed: ChainSeed("world")},
		jitter:  rand.New(rand.NewPCG(config.Seed, streamScrapes)),
	}
	for i, spec := range config.Engines {
		e, err := newEndpoint(spec, config.Seed, i, config.BlockTokens)
		if err != nil {
			return nil, nil, err
		}
		w.endpoints = append(w.endpoints, e)
		for _, r := range e.ranks {
			w.units = append(w.units, unit{r, i})
		}
		if joins := e.spec.JoinsAt; i > 0 && joins < config.Engines[i-1].JoinsAt {
			return nil, nil, fmt.Errorf("engine %d joins at %v, before the one that stands before it", i, joins)
		}
	}
	w.hold()
	if err := w.config.Replicas.complete(); err != nil {
		return nil, nil, err
	}
	for i := range w.config.Replicas.Count {
		w.replicas = append(w.replicas, w.newReplica(i, 0))
	}
	for range config.Plan.Workers {
		w.workers = append(w.workers, &worker{})
	}
	if w.meet(); w.met() == 0 {
		return nil, nil, errors.New("every engine joins later: want one at the beginning")
	}
	w.sample.Endpoints = make([]EndpointSample, len(w.endpoints))
	w.actors()
	var stop func()
	w.next, stop = iter.Pull(config.Plan.Sessions)
	return w, stop, nil
}

// actors numbers the actors and says when those act first that act by
// themselves.
func (w *world) actors() {
	n := len(w.units)
	number := func(count int) int { n += count; return n - count }
	w.actorScrape = number(len(w.replicas) * len(w.endpoints))
	w.actorChange = number(1)
	w.actorTimeout = number(1)
	w.actorWake = number(1)
	w.actorArrival = number(1)
	w.actorTick = number(1)
	w.actorSample = number(1)
	w.actorPark, w.actorProbe = number(1), number(1)
	w.actorShare, w.actorOutage = number(1), number(1)
	w.agenda = newAgenda(n)
	for _, r := range w.replicas {
		for i := range r.targets {
			w.scrape(r.number, i) // a router that has been up for a while
		}
	}
	w.agenda.set(w.actorOutage, w.nextOutage())
	w.agenda.set(w.actorChange, w.nextChange())
	w.agenda.set(w.actorTick, time.Second)
	w.probe() // its predictor too
	if w.config.Observer != nil {
		w.agenda.set(w.actorSample, 0)
	}
}

func (w *world) time(at time.Duration) time.Time { return epoch.Add(at) }

// contextCheck is after how many acts the context is asked.
const contextCheck = 4096

func (w *world) run(ctx context.Context) (*Result, error) {
	w.begin()
	for acts := 0; w.busy(); acts++ {
		if acts%contextCheck == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		actor, at := w.agenda.next()
		if h := w.config.Horizon; h > 0 && at >= h {
			w.now = h
			break
		}
		w.now = at
		if err := w.act(actor); err != nil {
			return nil, fmt.Errorf("at %v: %w", w.now, err)
		}
		if w.check != nil {
			if err := w.check(w); err != nil {
				return nil, fmt.Errorf("at %v: %w", w.now, err)
			}
		}
	}
	return w.finish(), nil
}

// busy reports whether a request is on its way or still to come.
func (w *world) busy() bool {
	if w.fork != nil && w.fork.ended {
		return false
	}
	return len(w.live) > 0 || len(w.parked) > 0 || len(w.wakes) > 0 || w.awaiting
}

func (w *world) act(actor int) error {
	switch {
	case actor < len(w.units):
		return w.step(actor)
	case actor < w.actorScrape+len(w.replicas)*len(w.endpoints):
		n := actor - w.actorScrape
		w.scrape(n/len(w.endpoints), n%len(w.endpoints))
	case actor == w.actorChange:
		w.change()
	case actor == w.actorTimeout:
		return w.giveUp()
	case actor == w.actorWake:
		return w.wakeDue()
	case actor == w.actorArrival:
		return w.arrive()
	case actor == w.actorTick:
		for _, r := range w.replicas {
			if !r.down {
				r.tick(w.time(w.now))
			}
		}
		w.agenda.set(actor, w.now+time.Second)
	case actor == w.actorPark:
		return w.unpark()
	case actor == w.actorProbe:
		w.probe()
	case actor == w.actorShare:
		w.exchange()
	case actor == w.actorOutage:
		return w.outage()
	case actor == w.actorSample:
		w.observe()
		w.agenda.set(actor, w.now+w.config.ObserveEvery)
	}
	return nil
}

// finish takes stock. What is still on its way is lost.
func (w *world) finish() *Result {
	for len(w.live) > 0 {
		w.close(w.live[0], feature.Lost)
	}
	w.sent -= len(w.parked) // nobody has decided about them
	if !w.exhausted {
		w.loadEnded = w.now
	}
	r := &w.result
	r.Sent, r.Ended = w.sent, w.last
	r.Loaded = Window{From: w.config.Plan.Warmup, To: w.loadEnded}
	for i, e := range w.endpoints {
		m := e.metrics((*Engine).current)
		r.Engines = append(r.Engines, m)
		r.Chosen = append(r.Chosen, w.chosen(i))
		r.Steps += m.Steps
	}
	return r
}
