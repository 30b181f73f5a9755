package route

import (
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/ledger"
)

// WordKind says what a Word is about.
type WordKind uint8

// The kinds of words, and which fields go with them beside Kind.
const (
	// Charged: a request was put on an endpoint. Number, Endpoint, Started, LLM,
	// Entry, At, Wait.
	Charged WordKind = iota
	// Generated: it has generated Tokens in all, of which the first ended its
	// prefill. Number, At.
	Generated
	// Settled: it has left the endpoint, however it ended. Number.
	Settled
	// Taught: what a request that was served teaches. Endpoint, Started, LLM,
	// Lesson, Last, Follows.
	Taught
	// Disbelieved: the endpoint does not hold these blocks. Endpoint, Started,
	// Chain.
	Disbelieved
	// Restating: all that the router has in flight follows, as Charged and
	// Generated, up to Restated; what is not in it has ended.
	Restating
	// Restated ends what Restating began.
	Restated

	wordKinds
)

// WordKinds names every kind, in order, for metrics.
var WordKinds = [wordKinds]string{"charged", "generated", "settled", "taught", "disbelieved", "restating", "restated"}

func (k WordKind) String() string { return WordKinds[k] }

// Word is one thing that a router tells others of what it does. It holds
// numbers, names of LLMs and endpoints, and hashes that nobody can tell anything
// from without Config.Salt: no prompt and no answer.
type Word struct {
	Kind     WordKind
	Number   uint64 // of the request, given by whoever tells; never used twice
	Endpoint string
	Started  float64 // names the endpoint's life: see pool.State; NaN: it has no name
	LLM      string

	Entry  ledger.Entry // but for MoveAt and Foreign
	At     time.Time
	Wait   time.Duration // until a request that does not stream is taken to decode; 0 for one that streams
	Tokens int
	Chain  []uint64

	Lesson  correction.Lesson
	Last    uint64  // block of a prompt; see prefix.Answers
	Follows float64 // tokens of an answer behind it
}

// Tell makes the router tell f everything that others should know, from now on.
// f is called under the router's lock and must return at once; what it is given
// it may keep and must not change. nil: there is nobody to tell.
func (r *Router) Tell(f func(*Word)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tell = f
}

// InFlight calls f with all that the router has in flight, as it would restate
// it, while it does nothing else: no word is told between what is in the list and
// what f does.
func (r *Router) InFlight(f func([]Word)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	words := make([]Word, 0, 2*len(r.open)+2)
	words = append(words, Word{Kind: Restating})
	for t := range r.open { // in no order, which is no matter to a ledger
		words = append(words, t.charged())
		if t.generated > 0 {
			words = append(words, Word{Kind: Generated, Number: t.number, Tokens: t.generated, At: now})
		}
	}
	f(append(words, Word{Kind: Restated}))
}

// charged is the word of a ticket's charge.
func (t *Ticket) charged() Word {
	entry := t.entry
	entry.Chain, entry.MoveAt = t.chain, time.Time{}
	return Word{
		Kind: Charged, Number: t.number, Endpoint: t.endpoint.id, Started: t.endpoint.state.Started,
		LLM: t.llm.name, Entry: entry, At: t.chargedAt, Wait: t.wait,
	}
}

// tellCharged says that t was charged at a time. Called under router.mu.
func (t *Ticket) tellCharged(now time.Time) {
	r := t.router
	r.charges++
	t.number, t.chargedAt, t.generated, t.shown = r.charges, now, 0, 0
	if r.tell != nil {
		w := t.charged()
		r.tell(&w)
	}
}

// tellGenerated says how far t has come, if that is news. Called under
// router.mu.
func (t *Ticket) tellGenerated(now time.Time) {
	if t.router.tell == nil || t.generated == t.shown {
		return
	}
	t.shown = t.generated
	t.router.tell(&Word{Kind: Generated, Number: t.number, Tokens: t.generated, At: now})
}

// tellSettled says that t is on its endpoint no more. Called under router.mu.
func (t *Ticket) tellSettled() {
	if t.router.tell != nil {
		t.router.tell(&Word{Kind: Settled, Number: t.number})
	}
}

// tellTaught says what others may learn from how t was served. Called under
// router.mu.
func (t *Ticket) tellTaught(e *End) {
	r := t.router
	if r.tell == nil {
		return
	}
	w := Word{
		Kind: Taught, Endpoint: t.endpoint.id, Started: t.endpoint.state.Started, LLM: t.llm.name,
		Lesson: correction.Lesson{
			PromptTokens: t.prompt, OutputTokens: e.OutputTokens / float64(max(1, t.query.Completions)),
			ForecastTTFT: feature.Seconds(feature.Unknown), ForecastTPOT: feature.Seconds(feature.Unknown),
			TTFT: e.TTFT, TPOT: e.TPOT,
		},
	}
	if e.PromptTokens > 0 {
		w.Lesson.PromptTokens = e.PromptTokens
	}
	if t.plain.Known() {
		w.Lesson.Bundle = t.bundle
		w.Lesson.ForecastTTFT, w.Lesson.ForecastTPOT = t.plain.TTFT.P50, t.plain.TPOT.P50
	}
	if n := len(t.chain); n > t.known && t.query.Completions <= 1 {
		w.Last, w.Follows = t.chain[n-1], t.prompt+e.OutputTokens-float64(n)*t.llm.blockTokens()
	}
	r.tell(&w)
}

// tellDisbelieved says that t's endpoint holds less of its prompt than was
// believed. Called under router.mu.
func (t *Ticket) tellDisbelieved(stretch []uint64) {
	if r := t.router; r.tell != nil {
		r.tell(&Word{Kind: Disbelieved, Endpoint: t.endpoint.id, Started: t.endpoint.state.Started, Chain: slices.Clone(stretch)})
	}
}
