package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/ledger"
	"github.com/spillway-llm/spillway/router/prefix"
)

// Replicas says how many routers stand before one fleet, all configured alike.
// Requests take turns among those that are up, whoever sends them: the hardest
// way to spread them, as the turns of a conversation meet every router.
type Replicas struct {
	Count int // 0: 1

	// Share lets every router tell the others what it has in flight, which
	// prefix it has sent where, and what came of it. They know ShareDelay after
	// it happened.
	Share      bool
	ShareDelay time.Duration

	Outage *Outage // nil: there is none
}

// Outage is the death of one router, as by SIGKILL: what it has in flight is cut
// off, and the clients send it anew at once to the others. Outcomes of requests
// that were cut off are lost.
type Outage struct {
	Replica int // from 0
	From    time.Duration
	// To is when it is back, with nothing learned, or where routers share, with
	// what one of the others believes to be cached. 0: never.
	To time.Duration
}

// shareSilence is after how long without a word what another router had in
// flight is forgotten, as by default in production.
const shareSilence = 3 * time.Second

// most replicas; the tag of a request's events names its router.
const (
	maxReplicas  = 64
	replicaShift = 24
)

func (r *Replicas) complete() error {
	if r.Count == 0 {
		r.Count = 1
	}
	switch o := r.Outage; {
	case r.Count < 0 || r.Count > maxReplicas:
		return fmt.Errorf("%d routers: want 1 to %d", r.Count, maxReplicas)
	case r.ShareDelay < 0:
		return fmt.Errorf("a share delay of %v: want none below 0", r.ShareDelay)
	case o == nil:
	case r.Count < 2 || o.Replica < 0 || o.Replica >= r.Count:
		return fmt.Errorf("an outage of router %d of %d: want one of several", o.Replica, r.Count)
	case o.From <= 0 || o.To != 0 && o.To <= o.From:
		return fmt.Errorf("an outage from %v to %v: want it to begin after 0, and end after that or never", o.From, o.To)
	}
	return nil
}

// replica is one of a world's routers and how it stands with the others.
type replica struct {
	*router
	number   int
	down     bool
	scrapers []scraper // by endpoint
}

// scraper is what one router asked an endpoint for and has not been brought yet.
type scraper struct {
	asked   bool
	askedAt time.Duration
	answer  Metrics
}

// word is what one router tells the others.
type word struct {
	kind     wordKind
	from     int
	at       time.Duration // when it happened
	number   uint64        // of the request
	endpoint int
	entry    ledger.Entry
	tokens   int      // generated in all
	chain    []uint64 // of the prompt, or what of it is not cached
	lesson   *correction.Lesson
	last     uint64  // block of the prompt, of an answer that the endpoint has now
	follows  float64 // tokens of that, behind it
}

type wordKind uint8

const (
	wordCharged wordKind = iota
	wordGenerated
	wordSettled
	wordDisbelieved
)

// Random streams of routers but the first: of each one's lives.
const (
	streamReplicas = 100
	livesApart     = 2 * maxReplicas
)

// newReplica makes a router that knows nothing.
func (w *world) newReplica(number, life int) *replica {
	stream := uint64(streamRouter)
	if number > 0 || life > 0 {
		stream = streamReplicas + uint64(number) + livesApart*uint64(life)<<20
	}
	r := &replica{
		router: newRouter(w.config.Router, rand.NewPCG(w.config.Seed, stream), w.config.BlockTokens, epoch.Add(w.now)),
		number: number, scrapers: make([]scraper, len(w.endpoints)),
	}
	r.always = w.config.Rows != nil || w.config.Decisions != nil
	for range w.config.Replicas.Count {
		r.mirrors = append(r.mirrors, ledger.NewMirror(r.ledger))
	}
	if w.config.Replicas.Share && w.config.Replicas.Count > 1 {
		r.tell = func(x word) {
			x.from, x.at = number, w.now
			w.words = append(w.words, x)
			if len(w.words) == 1 {
				w.agenda.set(w.actorShare, w.now+w.config.Replicas.ShareDelay)
			}
		}
	}
	return r
}

// nextReplica is the router whose turn it is.
func (w *world) nextReplica() *replica {
	for {
		r := w.replicas[w.turn%len(w.replicas)]
		w.turn++
		if !r.down {
			return r
		}
	}
}

// exchange lets the routers hear what it is time for.
func (w *world) exchange() {
	delay := w.config.Replicas.ShareDelay
	due := 0
	for ; due < len(w.words) && w.words[due].at+delay <= w.now; due++ {
		x := &w.words[due]
		for _, r := range w.replicas {
			if r.number != x.from && !r.down {
				r.hear(x, w.time(w.now))
			}
		}
	}
	w.words = slices.Delete(w.words, 0, due)
	at := never
	if len(w.words) > 0 {
		at = w.words[0].at + delay
	}
	w.agenda.set(w.actorShare, at)
}

// hear takes in what another router told.
func (r *replica) hear(x *word, now time.Time) {
	m, t := r.mirrors[x.from], r.targets[x.endpoint]
	switch x.kind {
	case wordCharged:
		at := epoch.Add(x.at)
		entry := x.entry
		entry.Chain = x.chain
		m.Charge(x.number, t.id, 0, entry, at)
		r.demand.Add(at, float64(x.entry.UncachedTokens))
		if len(x.chain) > 0 {
			r.index.Insert(t.slot, x.chain, at)
		}
	case wordGenerated:
		if e, first := m.Generated(x.number, x.tokens, now); first {
			work := t.profile.Coefficients.Work(float64(e.PromptTokens), float64(e.UncachedTokens))
			t.clock.Prefilled(epoch.Add(x.at), float64(work))
		}
	case wordSettled:
		m.Settle(x.number)
		if x.lesson != nil {
			x.lesson.Teach(&r.output, &t.offset)
			r.turns.Ended(t.slot, x.last, x.follows)
		}
	case wordDisbelieved:
		r.index.Drop(t.slot, x.chain)
	}
	r.changed(t)
}

// farewell is what a router tells of a request that has ended.
func (t *ticket) farewell(a answer, block float64) word {
	x := word{kind: wordSettled, number: t.number, endpoint: t.target.number}
	if !a.complete {
		return x
	}
	x.lesson = &correction.Lesson{
		PromptTokens: t.prompt, OutputTokens: float64(a.outputTokens),
		ForecastTTFT: t.plain.TTFT.P50, ForecastTPOT: t.plain.TPOT.P50, TTFT: a.ttft, TPOT: a.tpot,
	}
	if n := len(t.chain); n > t.known {
		x.last, x.follows = t.chain[n-1], t.prompt+float64(a.outputTokens)-float64(n)*block
	}
	return x
}

// nextOutage is when something next happens about the outage, after now.
func (w *world) nextOutage() time.Duration {
	at := never
	if o := w.config.Replicas.Outage; o != nil {
		for _, when := range []time.Duration{o.From, o.From + shareSilence, o.To} {
			if when > w.now {
				at = min(at, when)
			}
		}
	}
	return at
}

// outage lets a router die, the others forget it, and it come back.
func (w *world) outage() error {
	o := w.config.Replicas.Outage
	w.agenda.set(w.actorOutage, w.nextOutage())
	switch w.now {
	case o.From:
		return w.kill(w.replicas[o.Replica])
	case o.To:
		w.revive(o.Replica)
	}
	if w.now == o.From+shareSilence {
		for _, r := range w.replicas {
			r.mirrors[o.Replica].Clear()
			r.views.known = false
		}
	}
	return nil
}

// kill ends a router and what it has in flight, which is sent anew.
func (w *world) kill(r *replica) error {
	r.down, r.tell = true, nil
	for i := range w.endpoints {
		w.agenda.set(w.scrapeActor(r.number, i), never)
	}
	var cut []*call
	for _, c := range w.live {
		if c.replica == r {
			cut = append(cut, c)
		}
	}
	waiting := w.parked
	w.parked = nil
	for _, c := range waiting {
		if c.replica == r {
			c.replica = w.nextReplica()
		}
		w.park(c)
	}
	for _, c := range cut {
		w.units[w.unit(c)].engine.Cancel(c.request.ID)
		w.close(c, feature.Lost) // and never used again: the engine may still hold it
		w.reschedule(w.unit(c))
	}
	for _, c := range cut {
		w.again++
		if err := w.send(c.client, c.turn); err != nil {
			return err
		}
	}
	return nil
}

// revive puts a new router in the place of a dead one.
func (w *world) revive(number int) {
	r := w.newReplica(number, 1)
	w.replicas[number] = r
	for i := range w.replicas[(number+1)%len(w.replicas)].targets {
		w.introduce(r, i)
		w.scrape(number, i)
	}
	if r.tell == nil {
		return
	}
	other := w.nextReplica()
	for other == r {
		other = w.nextReplica()
	}
	now := w.time(w.now)
	var held []prefix.Held
	for i, t := range r.targets {
		held = other.index.Held(other.targets[i].slot, now, held[:0])
		r.index.Restore(t.slot, held, now)
	}
	for _, c := range w.live { // each of the others says what it has
		x := word{kind: wordCharged, from: c.replica.number, at: c.at, number: c.id, endpoint: c.endpoint, entry: c.ticket.entry}
		r.hear(&x, now)
		if n := c.stream().generated; n > 0 {
			r.hear(&word{kind: wordGenerated, from: x.from, number: c.id, endpoint: c.endpoint, tokens: int(n)}, now)
		}
	}
}
