package loadgen

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"time"

	"github.com/spillway-llm/spillway/internal/trace"
)

// A turn follows the one before after the answer's likely duration, for the
// open loop knows no other: two seconds and 25 ms a token, about what a loaded
// endpoint takes (published TPOT of a 32B model on two H100s: 16 to 38 ms).
const (
	likelyTTFT = 2 * time.Second
	likelyTPOT = 25 * time.Millisecond
)

// generator makes a workload's requests in order of time. Conversations arrive
// as a Poisson process; the turns of those under way wait in a heap.
type generator struct {
	rng     *rand.Rand
	parts   []shape
	zipf    []*rand.Zipf // of each part with skew
	names   []uint64     // what each part's shared blocks are named after
	stages  []stage
	turns   float64 // mean turns of a conversation
	arrival time.Duration
	stage   int
	stageAt float64 // when the stage began, seconds
	ended   bool
	count   uint64 // conversations so far
	waiting turnHeap
}

// conversation is one that has a turn to come.
type conversation struct {
	id     uint64
	at     time.Duration // of the next turn
	part   int
	left   int    // turns to come
	prefix int    // tokens before the conversation's own: system and group
	group  uint64 // 0: none
	own    uint64 // what the conversation's own blocks are named after
	length int    // tokens of prefix and history
}

func newGenerator(seed uint64, parts []shape, stages []stage) *generator {
	g := &generator{rng: rand.New(rand.NewPCG(seed, 'w')), parts: parts, stages: stages}
	share := 0.0
	for _, p := range parts {
		var z *rand.Zipf
		if p.skew > 0 {
			z = rand.NewZipf(g.rng, p.skew, 1, uint64(p.groups-1))
		}
		g.zipf = append(g.zipf, z)
		name := seed
		for _, letter := range []byte(p.name) {
			name = mix(name, uint64(letter))
		}
		g.names = append(g.names, name)
		weight := max(p.share, 1e-9)
		share += weight
		g.turns += weight * p.turns.mean
	}
	g.turns /= share
	g.arrive()
	return g
}

// arrive moves arrival to the next conversation's.
func (g *generator) arrive() {
	for g.stage < len(g.stages) {
		s := g.stages[g.stage]
		// The process has no memory: a gap that outlasts its stage is drawn
		// anew from the beginning of the next.
		at := max(g.arrival.Seconds(), g.stageAt) + g.rng.ExpFloat64()*g.turns/s.rate
		if at < g.stageAt+s.seconds {
			if at > math.MaxInt64/1e9 {
				break
			}
			g.arrival = time.Duration(at * 1e9)
			return
		}
		g.stageAt += s.seconds + pause
		g.stage++
	}
	g.ended = true
}

func (g *generator) next() (trace.Item, bool) {
	if !g.ended && (len(g.waiting) == 0 || g.arrival <= g.waiting[0].at) {
		c := g.begin()
		g.arrive()
		return g.turn(c), true
	}
	if len(g.waiting) == 0 {
		return trace.Item{}, false
	}
	return g.turn(heap.Pop(&g.waiting).(*conversation)), true
}

// begin starts a conversation.
func (g *generator) begin() *conversation {
	g.count++
	c := &conversation{id: g.count, at: g.arrival, part: g.pick()}
	p := &g.parts[c.part]
	c.left = max(p.turns.sample(g.rng), 1)
	c.own = mix(g.names[c.part], 'o', c.id)
	c.prefix = wholeBlocks(p.system)
	c.length = c.prefix
	switch {
	case p.groups > 0:
		if z := g.zipf[c.part]; z != nil {
			c.group = 1 + z.Uint64()
		} else {
			c.group = 1 + g.rng.Uint64N(uint64(p.groups))
		}
		c.prefix += wholeBlocks(int(p.context.mean))
		c.length = c.prefix
		if p.repeats > 0 {
			c.own = mix(g.names[c.part], 'q', c.group, g.rng.Uint64N(uint64(p.repeats)))
		}
	default:
		c.length += p.context.sample(g.rng)
	}
	return c
}

func (g *generator) pick() int {
	if len(g.parts) == 1 {
		return 0
	}
	u := g.rng.Float64()
	for i, p := range g.parts {
		if u -= p.share; u < 0 {
			return i
		}
	}
	return len(g.parts) - 1
}

// turn makes the conversation's next request, and lets it wait for the one
// after that. The answer becomes part of the history, as text of its length.
func (g *generator) turn(c *conversation) trace.Item {
	p := &g.parts[c.part]
	output := max(p.output.sample(g.rng), 1)
	c.length = min(c.length+max(p.input.sample(g.rng), 1), maxLength-output)
	item := trace.Item{At: c.at, PromptTokens: c.length, OutputTokens: output, Blocks: g.blocks(c), BlockTokens: block}

	c.length += output
	c.left--
	if c.left > 0 && c.length < maxLength {
		c.at += likelyTTFT + time.Duration(output)*likelyTPOT + time.Duration(g.rng.ExpFloat64()*float64(p.think))
		heap.Push(&g.waiting, c)
	}
	return item
}

// blocks names the blocks of the conversation's prompt: those of the system
// text are named after the workload, those of the group after it, the others
// after the conversation or the question.
func (g *generator) blocks(c *conversation) []uint64 {
	name := g.names[c.part]
	system, prefix := wholeBlocks(g.parts[c.part].system)/block, c.prefix/block
	ids := make([]uint64, (c.length+block-1)/block)
	for i := range ids {
		switch at := uint64(i); {
		case i < system:
			ids[i] = mix(name, 's', at)
		case i < prefix:
			ids[i] = mix(name, 'g', c.group, at)
		default:
			ids[i] = mix(c.own, at)
		}
	}
	return ids
}

// wholeBlocks rounds a number of tokens to whole blocks.
func wholeBlocks(tokens int) int { return (tokens + block/2) / block * block }

// turnHeap has the conversation with the earliest turn on top.
type turnHeap []*conversation

func (h turnHeap) Len() int { return len(h) }
func (h turnHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].id < h[j].id
}
func (h turnHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *turnHeap) Push(x any)   { *h = append(*h, x.(*conversation)) }
func (h *turnHeap) Pop() any {
	old := *h
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return c
}
