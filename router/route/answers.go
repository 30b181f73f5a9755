package route

import (
	"math"

	"github.com/spillway-llm/spillway/router/prefix"
)

// blockTokens is how many tokens a block of a prompt is, as far as is known.
func (l *llm) blockTokens() float64 { return float64(prefix.DefaultBlockBytes) * l.bytes.perByte }

// follows is how many tokens of an answer may follow the blocks of a prompt that
// the index knows at the endpoint of a slot. Called under router.mu.
func (l *llm) follows(slot int, chain []uint64, blocks int, prompt, blockTokens float64) float64 {
	if blocks == 0 {
		return 0
	}
	return l.turns.After(slot, chain[blocks-1], prompt-float64(blocks)*blockTokens)
}

// held is how many tokens of a prompt the endpoint of a slot is believed to have
// cached: the blocks that the index knows, and of the answer behind them as much
// as engines were found to keep. Called under router.mu.
func (l *llm) held(slot int, chain []uint64, blocks int, prompt, blockTokens float64) float64 {
	if blocks == 0 {
		return 0
	}
	known := float64(blocks) * blockTokens
	return min(prompt, math.Floor(known+l.turns.Share()*l.follows(slot, chain, blocks, prompt, blockTokens)))
}

// answered notes what the endpoint has of the answer, and what it had of the one
// before it. A prompt all of whose blocks were known is one that others may have
// asked, and will go on from in another way. Called under router.mu.
func (t *Ticket) answered(e *End) {
	b := t.believed
	if t.follows > 0 && b.blocks > 0 && e.CachedTokens >= b.tokens {
		t.llm.turns.Found(t.follows, e.CachedTokens-b.tokens)
	}
	if n := len(t.chain); n > t.known && t.query.Completions <= 1 {
		t.llm.turns.Ended(t.endpoint.slot, t.chain[n-1], t.prompt+e.OutputTokens-float64(n)*t.llm.blockTokens())
	}
}
