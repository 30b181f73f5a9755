package fleet

import (
	"math"
	"slices"
	"time"
)

// claim is a prompt that an endpoint was given.
type claim struct {
	slot  int
	chain []uint64
	at    time.Time
}

// claim tells the index of a decision, IndexLag after it.
func (r *router) claim(slot int, chain []uint64, now time.Time) {
	if r.config.IndexLag == 0 {
		r.index.Insert(slot, chain, now)
		return
	}
	r.late = append(r.late, claim{slot, slices.Clone(chain), now})
}

// learn lets the index learn what it is time for.
func (r *router) learn(now time.Time) {
	n := 0
	for ; n < len(r.late) && now.Sub(r.late[n].at) >= r.config.IndexLag; n++ {
		r.index.Insert(r.late[n].slot, r.late[n].chain, r.late[n].at)
	}
	r.late = slices.Delete(r.late, 0, n)
}

// follows is how many tokens of an answer may follow what the index knows of a
// prompt at an endpoint.
func (r *router) follows(slot int, q *query, blocks int) float64 {
	if blocks == 0 {
		return 0
	}
	return r.turns.After(slot, q.chain[blocks-1], float64(q.promptTokens)-float64(blocks)*r.block)
}

// held is how many tokens of a prompt an endpoint is believed to have.
func (r *router) held(slot int, q *query, blocks int) float64 {
	known := float64(blocks) * r.block
	return min(float64(q.promptTokens), known+math.Floor(r.turns.Share()*r.follows(slot, q, blocks)))
}

// answered notes what an endpoint has of an answer, and what it had of the one
// before it. A prompt all of whose blocks were known is one that others may have
// asked, and will go on from in another way.
func (r *router) answered(t *ticket, a answer) {
	if t.follows > 0 && t.believed.blocks > 0 && float64(a.cachedTokens) >= t.believed.tokens {
		r.turns.Found(t.follows, float64(a.cachedTokens)-t.believed.tokens)
	}
	if n := len(t.chain); n > t.known {
		r.turns.Ended(t.target.slot, t.chain[n-1], t.prompt+float64(a.outputTokens)-float64(n)*r.block)
	}
}

// belief is what the index said that an endpoint holds of a prompt.
type belief struct {
	blocks int     // 0: nothing, or nothing that can be put to the test
	tokens float64 // in them
}

// leastLost is the fewest tokens that an engine must have lost to be believed
// rather than the index, as in route.
const leastLost = 256

// believe is what the index says about the endpoint, to be compared with what
// the engine reports. While another request may still be computing the same
// prefix there, a miss would prove nothing.
func (r *router) believe(t *target, chain []uint64) belief {
	if len(chain) == 0 || r.config.KeepBeliefs {
		return belief{}
	}
	blocks := int(r.matches[t.slot])
	if blocks == 0 {
		return belief{}
	}
	last := chain[blocks-1] // it stands for all before it
	for i := range t.streams.all {
		s := &t.streams.all[i]
		if s.call == nil || s.events > 0 {
			continue
		}
		if other := s.call.ticket.chain; len(other) >= blocks && other[blocks-1] == last {
			return belief{}
		}
	}
	for _, m := range r.mirrors {
		if m.Computing(t.id, 0, last, blocks-1) {
			return belief{}
		}
	}
	return belief{blocks, float64(blocks) * r.block}
}

// test takes the engine's word for what it had cached of a prompt: where that
// is less than half of what was believed, the rest of it leaves the index.
func (r *router) test(t *ticket, cached float64) {
	b := t.believed
	if b.blocks == 0 || cached >= b.tokens/2 || b.tokens-cached < leastLost {
		return
	}
	held := int(math.Floor(cached / b.tokens * float64(b.blocks)))
	r.index.Drop(t.target.slot, t.chain[held:b.blocks])
	if r.tell != nil {
		r.tell(word{kind: wordDisbelieved, endpoint: t.target.number, chain: slices.Clone(t.chain[held:b.blocks])})
	}
}
