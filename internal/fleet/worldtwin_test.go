package fleet_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

// twinWorld is the world written the dumb way: no agenda, no ledger, no index.
// Who acts next is found by looking at everybody, and what an endpoint has in
// flight or in its cache by going through all requests. It goes where the
// world went, checks that the policy allows it, and must see the same.
type twinWorld struct {
	c         fleet.WorldConfig
	went      map[[2]int]int // session and turn -> endpoint
	now       time.Duration
	engines   []*twin
	sessions  []workload.Session // not begun
	sent      []*twinCall
	wakes     []twinWake
	texts     map[string]uint64 // what hashes are here
	ended     []fleet.Outcome
	decisions int
	turns     []twinTurn
	found     []float64 // shares of answers
	problem   string
}

type twinCall struct {
	client          *twinClient
	session         workload.Session
	turn            int
	endpoint        int
	at, first, last time.Duration
	chain           []uint64 // of the prompt
	uncached        float64
	matched         int
	known           int     // blocks
	follows         float64 // tokens of an answer that may follow them
	unsure          bool    // what the engine had of them says nothing
	made, cached    int
	open            bool
}

// twinTurn is what follows the last block of a prompt that an endpoint answered.
type twinTurn struct {
	endpoint int
	last     uint64
	tokens   float64
}

type twinClient struct {
	session workload.Session
	turn    int
	stuck   int
	busy    bool
}

type twinWake struct {
	at     time.Duration
	client *twinClient
}

func (w *twinWorld) run() []fleet.Outcome {
	for _, e := range w.c.Engines {
		p := e.Profile
		p.BlockTokens = w.c.BlockTokens
		w.engines = append(w.engines, newTwin(p, e.Options))
	}
	w.sessions = slices.Collect(w.c.Plan.Sessions)
	for i := range w.c.Plan.Concurrency {
		at := time.Duration(float64(w.c.Plan.Ramp) * float64(i) / float64(w.c.Plan.Concurrency))
		w.wakes = append(w.wakes, twinWake{at, &twinClient{stuck: -1}})
	}
	for w.problem == "" && w.act() {
	}
	return w.ended
}

// act does whatever comes first; of what comes at one time: engines, clients
// that lose patience, clients that wake, sessions that arrive.
func (w *twinWorld) act() bool {
	best := time.Duration(math.MaxInt64)
	var do func()
	consider := func(at time.Duration, f func()) {
		if at < best {
			best, do = at, f
		}
	}
	for i, e := range w.engines {
		if at, ok := e.next(); ok {
			consider(at, func() { w.step(i) })
		}
	}
	for _, c := range w.sent {
		if c.open && w.c.Plan.Timeout > 0 {
			consider(c.at+w.c.Plan.Timeout, w.giveUp)
		}
	}
	for _, x := range w.wakes {
		consider(x.at, w.wake)
	}
	if w.c.Plan.Concurrency == 0 && len(w.sessions) > 0 && !w.full() {
		consider(max(w.now, w.sessions[0].At), func() {
			c := &twinClient{session: w.sessions[0], stuck: -1, busy: true}
			w.sessions = w.sessions[1:]
			w.proceed(c)
		})
	}
	if do == nil {
		return false
	}
	w.now = best
	do()
	return true
}

// giveUp ends all requests that are as old as clients wait, then the clients
// go on.
func (w *twinWorld) giveUp() {
	var late []*twinClient
	for _, c := range w.sent {
		if c.open && c.at+w.c.Plan.Timeout == w.now {
			w.engines[c.endpoint].cancel(w.id(c))
			w.end(c, feature.ClientAbort)
			late = append(late, c.client)
		}
	}
	for _, c := range late {
		w.answered(c)
	}
}

// wake lets act all clients whose time it is.
func (w *twinWorld) wake() {
	due := slices.Clone(w.wakes)
	w.wakes = slices.DeleteFunc(w.wakes, func(x twinWake) bool { return x.at == w.now })
	for _, x := range due {
		if x.at == w.now {
			w.proceed(x.client)
		}
	}
}

func (w *twinWorld) full() bool { return w.c.Plan.Limit > 0 && len(w.sent) >= w.c.Plan.Limit }

func (w *twinWorld) id(c *twinCall) uint64 { return uint64(slices.Index(w.sent, c)) }

func (w *twinWorld) step(i int) {
	for _, h := range w.engines[i].act(w.now) {
		c := w.sent[h.ID]
		switch {
		case !c.open:
		case h.Kind == fleet.Finished:
			w.end(c, feature.OK)
			w.answered(c.client)
		default:
			if c.made == 0 {
				c.first, c.cached = h.At, h.Cached
			}
			c.last, c.made = h.At, h.Generated
		}
	}
}

func (w *twinWorld) answered(c *twinClient) {
	if c.turn < len(c.session.Turns) {
		if after := c.session.Turns[c.turn].After; after > 0 {
			w.wakes = append(w.wakes, twinWake{w.now + after, c})
			return
		}
		w.proceed(c)
		return
	}
	c.busy = false
	if w.c.Plan.Concurrency > 0 {
		w.proceed(c)
	}
}

func (w *twinWorld) proceed(c *twinClient) {
	if w.full() {
		return
	}
	if !c.busy {
		if len(w.sessions) == 0 {
			return
		}
		c.session, c.turn, c.busy = w.sessions[0], 0, true
		w.sessions = w.sessions[1:]
		if w.c.Router.Connections == fleet.PerSession {
			c.stuck = -1
		}
	}
	c.turn++
	w.send(c)
}

func (w *twinWorld) send(who *twinClient) {
	t := who.session.Turns[who.turn-1]
	c := &twinCall{client: who, session: who.session, turn: who.turn - 1, at: w.now, open: true}
	c.endpoint = w.went[[2]int{c.session.Index, c.turn}]
	chain := w.chain(&t, (t.PromptTokens+t.OutputTokens)/w.c.BlockTokens)
	c.chain = chain[:t.PromptTokens/w.c.BlockTokens]
	if w.c.Router.Connections != fleet.PerRequest && who.stuck >= 0 {
		if c.endpoint != who.stuck {
			w.problem = fmt.Sprintf("session %d turn %d left its connection to %d for %d", c.session.Index, c.turn, who.stuck, c.endpoint)
		}
	} else {
		w.allowed(c, &t)
		w.decisions++
	}
	who.stuck = c.endpoint
	c.known = w.match(c, c.endpoint)
	c.follows = w.follows(c, c.endpoint, c.known)
	c.matched = int(w.held(c, c.endpoint))
	for _, o := range w.sent {
		if c.known > 0 && o.open && o.made == 0 && o.endpoint == c.endpoint && len(o.chain) >= c.known && o.chain[c.known-1] == c.chain[c.known-1] {
			c.unsure = true
		}
	}
	c.uncached = max(16, float64(t.PromptTokens-c.matched))
	w.sent = append(w.sent, c)
	spec := w.c.Engines[c.endpoint]
	e := w.engines[c.endpoint]
	e.script = append(e.script, &twinSeq{
		id: uint64(len(w.sent) - 1), prompt: t.PromptTokens, output: t.OutputTokens, chain: chain, arrived: w.now + spec.Overhead,
	})
}

// chain names the blocks of a text by all ids that have a token in them or
// before.
func (w *twinWorld) chain(t *workload.Turn, n int) (chain []uint64) {
	for i := range n {
		ids := ((i+1)*w.c.BlockTokens + t.BlockTokens - 1) / t.BlockTokens
		text := fmt.Sprint(t.Answered[:ids], i)
		if w.texts[text] == 0 {
			w.texts[text] = uint64(len(w.texts) + 1)
		}
		chain = append(chain, w.texts[text])
	}
	return chain
}

// match is how many blocks of c's prompt were sent to an endpoint before.
func (w *twinWorld) match(c *twinCall, endpoint int) int {
	best := 0
	for _, o := range w.sent {
		n := 0
		for n < min(len(c.chain), len(o.chain)) && c.chain[n] == o.chain[n] {
			n++
		}
		if o.endpoint == endpoint {
			best = max(best, n)
		}
	}
	return best
}

// follows is how many tokens of the last answer behind the same blocks may
// follow those that are known.
func (w *twinWorld) follows(c *twinCall, endpoint, known int) float64 {
	tokens := 0.0
	for _, a := range w.turns {
		if known > 0 && a.endpoint == endpoint && a.last == c.chain[known-1] {
			tokens = a.tokens
		}
	}
	return max(0, min(tokens, float64(c.session.Turns[c.turn].PromptTokens-known*w.c.BlockTokens)))
}

// held is how many tokens of c's prompt an endpoint is believed to have: of
// answers the share that was found, each of the last 50 counting alike.
func (w *twinWorld) held(c *twinCall, endpoint int) float64 {
	share, seen := 0.0, 2.0
	for _, f := range w.found {
		seen = min(seen+1, 50)
		share += (f - share) / seen
	}
	known := w.match(c, endpoint)
	return float64(known*w.c.BlockTokens) + math.Floor(share*w.follows(c, endpoint, known))
}

// allowed notes a choice that the policy does not make.
func (w *twinWorld) allowed(c *twinCall, t *workload.Turn) {
	n := len(w.engines)
	requests, prefill, matched := make([]float64, n), make([]float64, n), make([]float64, n)
	for _, o := range w.sent {
		if o.open {
			requests[o.endpoint]++
			if o.made == 0 {
				prefill[o.endpoint] += o.uncached
			}
		}
	}
	for i := range n {
		matched[i] = w.held(c, i)
	}
	prompt := float64(t.PromptTokens)
	load, settings := requests, policy.Defaults()
	pool := make([]int, 0, n)
	for i := range n {
		pool = append(pool, i)
	}
	switch w.c.Router.Policy {
	case policy.RoundRobin:
		if c.endpoint != w.decisions%n {
			w.problem = fmt.Sprintf("decision %d went to %d", w.decisions, c.endpoint)
		}
		return
	case policy.TokenLoad:
		load = slices.Clone(prefill)
		for i := range load {
			load[i] += max(16, prompt-matched[i])
		}
		fallthrough
	case policy.ActiveRequest:
		var warm, cold []int
		wait := func(of []int) float64 {
			least := math.Inf(1)
			for _, i := range of {
				least = min(least, prefill[i]/small().PeakPrefillThroughput)
			}
			return least
		}
		for i := range n {
			if matched[i] > 0 && (matched[i] >= 0.8*prompt || matched[i]/small().PeakPrefillThroughput >= float64(settings.StickySaved)) {
				warm = append(warm, i)
			} else {
				cold = append(cold, i)
			}
		}
		if len(warm) > 0 && (len(cold) == 0 || wait(warm)-wait(cold) <= float64(settings.MaxTTFTPenalty)) {
			pool = warm
		}
	}
	least := math.Inf(1)
	for _, i := range pool {
		least = min(least, load[i])
	}
	if !slices.Contains(pool, c.endpoint) || load[c.endpoint] != least {
		w.problem = fmt.Sprintf("session %d turn %d went to %d; loads %v, matches %v, candidates %v", c.session.Index, c.turn, c.endpoint, load, matched, pool)
	}
}

func (w *twinWorld) end(c *twinCall, status feature.Status) {
	c.open = false
	t := c.session.Turns[c.turn]
	o := fleet.Outcome{
		Session: c.session.Index, Turn: c.turn, Class: c.session.Class, Endpoint: c.endpoint, Status: status, At: c.at, E2E: w.now - c.at,
		PromptTokens: t.PromptTokens, MatchedTokens: c.matched, CachedTokens: c.cached, OutputTokens: c.made,
	}
	if known := c.known * w.c.BlockTokens; status == feature.OK {
		if c.follows > 0 && !c.unsure && c.cached >= known {
			w.found = append(w.found, min(float64(c.cached-known)/c.follows, 1))
		}
		if n := len(c.chain); n > c.known {
			if tokens := float64(t.PromptTokens + c.made - n*w.c.BlockTokens); tokens > 0 {
				w.turns = append(w.turns, twinTurn{c.endpoint, c.chain[n-1], tokens})
			}
		}
	}
	if c.made > 0 {
		o.TTFT = c.first - c.at
	}
	if c.made > 1 {
		o.TPOT = (c.last - c.first) / time.Duration(c.made-1)
	}
	w.ended = append(w.ended, o)
}

func TestWorldEqualsTwin(t *testing.T) {
	aborted, matched := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		c := drawWorld(rt, []string{policy.RoundRobin, policy.LeastRequest, policy.TokenLoad, policy.ActiveRequest})
		c.Router.Objectives = nil  // the dumb valve knows one penalty
		for i := range c.Engines { // the dumb index forgets nothing
			c.Engines[i].Profile.KVCapacityTokens = 1 << 14
		}
		for i := range c.Engines {
			acceptance := c.Engines[i].Options.Acceptance[""]
			c.Engines[i].Options.Acceptance = map[string]float64{"": acceptance, "a": acceptance, "b": acceptance}
		}
		r, err := fleet.SimulateChecked(context.Background(), c)
		if err != nil {
			rt.Fatal(err)
		}
		w := twinWorld{c: c, went: map[[2]int]int{}, texts: map[string]uint64{}}
		for i := range r.Requests {
			o := &r.Requests[i]
			o.Alone, o.Policy = 0, ""
			w.went[[2]int{o.Session, o.Turn}] = o.Endpoint
			matched += o.MatchedTokens
			if o.Status == feature.ClientAbort {
				aborted++
			}
		}
		want := w.run()
		if w.problem != "" {
			rt.Fatal(w.problem)
		}
		if diff := cmp.Diff(want, r.Requests); diff != "" {
			rt.Fatalf("twin and world differ: %s", diff)
		}
	})
	if aborted == 0 || matched == 0 {
		t.Errorf("the worlds saw %d requests time out and %d tokens match: want both", aborted, matched)
	}
}
