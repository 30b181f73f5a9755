package route

import (
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/ledger"
	"github.com/spillway-llm/spillway/router/pool"
)

// Peer is what this router was told by one other. What the other has in flight
// counts in every decision like what this router sent itself, and is kept apart
// from it; what it sent where is believed to be cached there.
type Peer struct {
	router *Router
	name   string
	mirror *ledger.Mirror

	restating bool // what is heard has happened before
}

// Unheard is why a word had no effect.
type Unheard string

// The reasons, for metrics.
const (
	UnknownEndpoint Unheard = "unknown_endpoint" // of an endpoint that this router does not have
	OtherLife       Unheard = "other_life"       // of a life of it that is over, or that this router has not noticed
	TooMuch         Unheard = "too_much"         // the peer has more in flight than is kept of one
)

// Unheards lists all of them.
var Unheards = []Unheard{UnknownEndpoint, OtherLife, TooMuch}

// wordsAtOnce is how many words are heard under one lock: requests wait for it.
const wordsAtOnce = 64

// Meet makes a Peer, of which nothing was heard yet.
func (r *Router) Meet(name string) *Peer {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &Peer{router: r, name: name, mirror: ledger.NewMirror(r.ledger)}
	r.peers = append(r.peers, p)
	return p
}

// Leave forgets the peer for good.
func (p *Peer) Leave() {
	r := p.router
	r.mu.Lock()
	defer r.mu.Unlock()
	p.forget()
	for i := range r.peers {
		if r.peers[i] == p {
			r.peers = append(r.peers[:i:i], r.peers[i+1:]...)
			break
		}
	}
	delete(r.silent, p)
	r.missing()
}

// Forget drops what the peer had in flight: it is silent, or has begun anew. It
// returns how many requests that were. What it is believed to have put into
// caches stays: caches do not die with a router. A silent one is named in the
// reason of every decision until it is heard of.
func (p *Peer) Forget(silent bool) int {
	r := p.router
	r.mu.Lock()
	defer r.mu.Unlock()
	n := p.forget()
	p.setSilent(silent)
	return n
}

func (p *Peer) forget() int {
	n := p.mirror.Clear()
	if n > 0 {
		for _, e := range p.router.present {
			e.touch()
		}
	}
	return n
}

// Heard says that the peer is there, though it had nothing to say.
func (p *Peer) Heard() {
	p.router.mu.Lock()
	defer p.router.mu.Unlock()
	p.setSilent(false)
}

// InFlight is how many requests of the peer are known to be in flight.
func (p *Peer) InFlight() int {
	p.router.mu.Lock()
	defer p.router.mu.Unlock()
	return p.mirror.Len()
}

// Hear takes in words in their order, and says of those without an effect why;
// unheard may be nil. Words about requests that this router does not know of, as
// they were about such an endpoint, have none and need no reason.
func (p *Peer) Hear(words []Word, unheard func(Unheard)) {
	for len(words) > 0 {
		n := min(wordsAtOnce, len(words))
		p.hear(words[:n], unheard)
		words = words[n:]
	}
}

func (p *Peer) hear(words []Word, unheard func(Unheard)) {
	r := p.router
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sync()
	now := time.Now()
	for i := range words {
		if why := p.word(&words[i], now); why != "" && unheard != nil {
			unheard(why)
		}
	}
}

// word takes in one word. Called under router.mu.
func (p *Peer) word(w *Word, now time.Time) Unheard {
	r := p.router
	switch w.Kind {
	case Generated:
		p.generated(w, now)
		return ""
	case Settled:
		if e := r.endpoints[p.mirror.Endpoint(w.Number)]; e != nil {
			e.touch()
		}
		p.mirror.Settle(w.Number)
		return ""
	case Restating:
		p.restating = true
		p.mirror.Restate()
		return ""
	case Restated:
		p.restating = false
		p.mirror.Restated()
		return ""
	}
	e := r.endpoints[w.Endpoint]
	if e == nil {
		return UnknownEndpoint
	}
	if !pool.SameLife(w.Started, e.state.Started) {
		return OtherLife
	}
	switch w.Kind {
	case Charged:
		return p.charged(e, w, now)
	case Taught:
		p.taught(e, w)
	case Disbelieved:
		r.index.Drop(e.slot, w.Chain)
	}
	e.touch()
	return ""
}

func (p *Peer) charged(e *endpoint, w *Word, now time.Time) Unheard {
	at := w.At
	if at.After(now) {
		at = now
	}
	entry := w.Entry
	if w.Wait > 0 {
		entry.MoveAt = at.Add(w.Wait)
	}
	before := p.mirror.Len()
	fresh := p.mirror.Charge(w.Number, e.id, e.incarnation, entry, at)
	if !fresh && before >= ledger.MostMirrored {
		return TooMuch
	}
	if !fresh {
		return ""
	}
	e.touch()
	if l := p.router.llms[w.LLM]; l != nil && !p.restating {
		l.demand.Add(at, float64(entry.UncachedTokens))
	}
	p.router.index.Insert(e.slot, entry.Chain, at)
	return ""
}

// generated draws a request down. The end of a prefill tells how fast its
// endpoint is, whoever sent the prompt, but not that of a request which is
// restated: nobody says when it was.
func (p *Peer) generated(w *Word, now time.Time) {
	at := w.At
	if at.After(now) {
		at = now
	}
	entry, first := p.mirror.Generated(w.Number, w.Tokens, at)
	e := p.router.endpoints[p.mirror.Endpoint(w.Number)]
	if e == nil {
		return
	}
	e.touch()
	if first && !p.restating {
		e.clock.Prefilled(at, float64(e.profile.Coefficients.Work(float64(entry.PromptTokens), float64(entry.UncachedTokens))))
	}
}

// taught learns what the peer learned.
func (p *Peer) taught(e *endpoint, w *Word) {
	r := p.router
	l := r.llms[w.LLM]
	if l == nil {
		return // nobody has asked this router for it
	}
	offset := &e.offset
	if w.Lesson.Bundle == 0 || w.Lesson.Bundle != l.guard.Bundle() {
		offset = nil
	}
	w.Lesson.Teach(&l.output, offset)
	l.turns.Ended(e.slot, w.Last, w.Follows)
}

// setSilent notes whether the peer is missed. Called under router.mu.
func (p *Peer) setSilent(silent bool) {
	if p.router.silent[p] == silent {
		return
	}
	if silent {
		p.router.silent[p] = true
	} else {
		delete(p.router.silent, p)
	}
	p.router.missing()
}

// missing writes down which peers are silent, as reasons say it. Called under
// mu.
func (r *Router) missing() {
	var names []string
	for _, p := range r.peers {
		if r.silent[p] {
			names = append(names, p.name)
		}
	}
	r.without = ""
	if len(names) > 0 {
		r.without = "without word of " + strings.Join(names, ", ")
	}
}

// computedElsewhere reports whether a request of a peer may still be computing a
// block of its prompt at e. Called under mu.
func (r *Router) computedElsewhere(e *endpoint, block uint64, depth int) bool {
	for _, p := range r.peers {
		if p.mirror.Computing(e.id, e.incarnation, block, depth) {
			return true
		}
	}
	return false
}

// longestElsewhere is the most tokens of a prompt that a peer sent to e and that
// has no first token. Called under mu.
func (r *Router) longestElsewhere(e *endpoint) (tokens float64) {
	for _, p := range r.peers {
		tokens = max(tokens, float64(p.mirror.Longest(e.id, e.incarnation)))
	}
	return tokens
}

// PeerStatus is one other router as this one knows it.
type PeerStatus struct {
	Address  string          `json:"address"`
	Router   string          `json:"router"`    // its name, once it has said it
	State    string          `json:"state"`     // connected, silent, waiting, self or alias
	Age      feature.Seconds `json:"age"`       // of its last word; NaN: there was none
	InFlight int             `json:"in_flight"` // its requests, as far as known
}
