package route

import (
	"math"
	"net/http"

	"github.com/spillway-llm/spillway/internal/feature"
)

// belief is what the prefix index said that an endpoint holds of a prompt.
type belief struct {
	blocks int     // 0: nothing, or nothing that can be put to the test
	tokens float64 // in them
}

// leastLost is the fewest tokens that an engine must have lost to be believed
// rather than the index: below it, estimates and block sizes make as much.
const leastLost = 256

// farTooLong is how much longer than an engine's whole cache a prompt must be
// estimated for no doubt to be left that the engine refuses it.
const farTooLong = 1.25

// refuses reports whether a prompt is longer than all that the endpoint can hold, by
// its own report: the claim of one that it can't compute would push everything else
// out of the index.
func (e *endpoint) refuses(prompt float64) bool {
	return e.state.KVCapacityTokens > 0 && prompt > farTooLong*e.state.KVCapacityTokens
}

// believe notes what the index says about the endpoint, to be compared with
// what the engine reports. While another request may still be computing the
// same prefix there, a miss would prove nothing. Called under router.mu.
func (t *Ticket) believe(e *endpoint, chain []uint64, blocks int) {
	if blocks == 0 {
		return
	}
	blockTokens := t.llm.blockTokens()
	t.follows = t.llm.follows(e.slot, chain, blocks, t.prompt, blockTokens)
	last := chain[blocks-1] // it stands for all before it
	for other := range e.silent {
		if len(other.chain) >= blocks && other.chain[blocks-1] == last {
			return
		}
	}
	if t.router.computedElsewhere(e, last, blocks-1) {
		return
	}
	t.believed = belief{blocks, min(t.prompt, math.Floor(float64(blocks)*blockTokens))}
}

// checkBelief takes the engine's word for what it had cached of the prompt:
// where that is less than half of what was believed, the rest of it leaves the
// index. Engines evict in an order of their own, and some cache nothing.
// Called under router.mu.
func (t *Ticket) checkBelief(e *End) {
	b, r := t.believed, t.router
	if b.blocks == 0 || !(e.CachedTokens >= 0) || r.endpoints[t.endpoint.id] != t.endpoint {
		return
	}
	if e.CachedTokens >= b.tokens/2 || b.tokens-e.CachedTokens < leastLost {
		return
	}
	held := int(math.Floor(e.CachedTokens / b.tokens * float64(b.blocks)))
	r.index.Drop(t.endpoint.slot, t.chain[held:b.blocks])
	t.tellDisbelieved(t.chain[held:b.blocks])
	t.endpoint.touch()
	r.metrics.disbelieved.Inc()
}

// claim notes which blocks of the prompt the index has of the endpoint only since
// the ticket is charged there. Called under router.mu, before it is.
func (t *Ticket) claim() {
	matches := make([]int32, t.router.index.Slots())
	t.router.index.Match(t.chain, matches)
	t.claimed = int(matches[t.endpoint.slot])
}

// refused reports whether the endpoint has computed nothing of a request that
// ended so: it said no, or never got it.
func (t *Ticket) refused(e *End) bool {
	return !t.first && e.Status == feature.UpstreamError && e.HTTPStatus >= http.StatusBadRequest
}

// unclaim takes back what the index says of the endpoint because of this ticket
// alone, which came to nothing there. Called under router.mu.
func (t *Ticket) unclaim() {
	r, e, from := t.router, t.endpoint, t.claimed
	for other := range e.live {
		if other == t {
			continue
		}
		for from < min(len(t.chain), len(other.chain)) && t.chain[from] == other.chain[from] {
			from++
		}
	}
	if from >= len(t.chain) || r.endpoints[e.id] != e || r.computedElsewhere(e, t.chain[from], from) {
		return
	}
	r.index.Drop(e.slot, t.chain[from:])
	t.tellDisbelieved(t.chain[from:])
	e.touch()
}
