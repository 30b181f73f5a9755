package prefix

import (
	"math"
	"math/bits"
	"time"
)

// Defaults of Config.
const (
	DefaultTokensPerByte  = 0.25    // English text, about 4 bytes a token
	DefaultCapacityTokens = 262_144 // of one endpoint, until SetCapacity
)

// Config sizes an Index. Zero fields mean the default.
type Config struct {
	BlockBytes     int     // bytes of prompt in one block; the Hasher must use the same
	TokensPerByte  float64 // until SetCapacity says better
	CapacityTokens float64 // what an endpoint holds until SetCapacity
}

// Index is the inverted index: chain hash -> the endpoints that hold the
// block. It holds at most the sum of all capacities in entries, one entry
// being one block on one endpoint.
type Index struct {
	config Config
	slots  []slot
	byID   map[string]int

	nodes map[uint64]int32 // chain hash -> node
	sets  []uint64         // node i's endpoints are sets[i*words:][:words], bit = slot
	words int
	freed []int32 // nodes to use again
	held  int     // entries on all slots
}

// New returns an empty index.
func New(c Config) *Index {
	if c.BlockBytes < 1 {
		c.BlockBytes = DefaultBlockBytes
	}
	if !(c.TokensPerByte > 0) {
		c.TokensPerByte = DefaultTokensPerByte
	}
	if !(c.CapacityTokens > 0) {
		c.CapacityTokens = DefaultCapacityTokens
	}
	return &Index{config: c, byID: make(map[string]int), nodes: make(map[uint64]int32), words: 1}
}

// BlockBytes is the size of a block.
func (x *Index) BlockBytes() int { return x.config.BlockBytes }

// Slot returns the number of an endpoint, given on first sight and kept until
// Remove. Numbers are small and used again.
func (x *Index) Slot(endpoint string) int {
	if s, ok := x.byID[endpoint]; ok {
		return s
	}
	s := 0
	for s < len(x.slots) && x.slots[s].used {
		s++
	}
	if s == len(x.slots) {
		x.slots = append(x.slots, slot{})
		if len(x.slots) > 64*x.words {
			x.widen()
		}
	}
	x.slots[s].open()
	x.byID[endpoint] = s
	x.SetCapacity(s, x.config.CapacityTokens, x.config.TokensPerByte)
	return s
}

// Slots is one more than the highest slot in use has ever been: the length
// that Match needs.
func (x *Index) Slots() int { return len(x.slots) }

// Len is the number of entries: blocks held, counted on every endpoint that
// holds them.
func (x *Index) Len() int { return x.held }

// Remove forgets an endpoint and frees its slot.
func (x *Index) Remove(endpoint string) {
	s, ok := x.byID[endpoint]
	if !ok {
		return
	}
	x.Clear(s)
	x.slots[s] = slot{}
	delete(x.byID, endpoint)
}

// Clear empties a slot: a new incarnation begins with an empty cache.
func (x *Index) Clear(slot int) {
	s := &x.slots[slot]
	for s.held > 0 {
		x.forget(slot, s.oldest)
	}
}

// SetCapacity says how many tokens the endpoint's cache holds and how many
// tokens a byte of prompt is there; what no longer fits is evicted. Values
// that are not positive numbers leave what was set before. A slot always has
// room for one block.
func (x *Index) SetCapacity(slot int, tokens, tokensPerByte float64) {
	s := &x.slots[slot]
	if tokens > 0 {
		s.capacityTokens = tokens
	}
	if tokensPerByte > 0 {
		s.tokensPerBlock = tokensPerByte * float64(x.config.BlockBytes)
	}
	s.capacity = int(max(1, min(s.capacityTokens/s.tokensPerBlock, math.MaxInt32/2)))
	for s.held > s.capacity {
		x.forget(slot, s.oldest)
	}
}

// Insert says that the endpoint computes, or has computed, this chain; at the
// decision it claims the prefix. Of a chain longer than the capacity only the
// head is kept.
func (x *Index) Insert(slot int, chain []uint64, now time.Time) {
	s := &x.slots[slot]
	chain = chain[:min(len(chain), s.capacity)]
	second := now.Unix()
	// From the tail to the head, so that the head is the last to be evicted.
	for i := len(chain) - 1; i >= 0; i-- {
		x.touch(slot, chain[i], second)
	}
	for s.held > s.capacity {
		x.forget(slot, s.oldest)
	}
}

// Drop says that the endpoint does not hold the blocks of a stretch of a
// chain: what follows them there is no longer matched.
func (x *Index) Drop(slot int, stretch []uint64) {
	s := &x.slots[slot]
	for _, hash := range stretch {
		if b, ok := s.entries[hash]; ok {
			x.forget(slot, b)
		}
	}
}

// Match writes for every slot how many blocks of the chain, from its start
// without a gap, the endpoint holds. out must hold Slots numbers.
func (x *Index) Match(chain []uint64, out []int32) {
	clear(out)
	var array [16]uint64 // 1,024 endpoints without allocating
	alive := array[:]
	if x.words > len(array) {
		alive = make([]uint64, x.words)
	}
	alive = alive[:x.words]
	for i := range alive {
		alive[i] = math.MaxUint64
	}
	for i, hash := range chain {
		node, ok := x.nodes[hash]
		if !ok {
			x.stop(alive, nil, int32(i), out)
			return
		}
		if !x.stop(alive, x.set(node), int32(i), out) {
			return
		}
	}
	x.stop(alive, nil, int32(len(chain)), out)
}

// stop ends the walk, at depth, of the endpoints of alive that are not in
// next, and reports whether any go on.
func (x *Index) stop(alive, next []uint64, depth int32, out []int32) bool {
	any := uint64(0)
	for w, was := range alive {
		var is uint64
		if next != nil {
			is = was & next[w]
		}
		any |= is
		ended := was &^ is
		alive[w] = is
		if depth == 0 { // nothing to write; all bits are still set, also those of no slot
			continue
		}
		for ; ended != 0; ended &= ended - 1 {
			out[64*w+bits.TrailingZeros64(ended)] = depth
		}
	}
	return any != 0
}

// set returns the endpoints of a node.
func (x *Index) set(node int32) []uint64 {
	return x.sets[int(node)*x.words:][:x.words]
}

// widen makes room for 64 more slots in every set.
func (x *Index) widen() {
	words := x.words + 1
	sets := make([]uint64, len(x.sets)/x.words*words)
	for n := range len(x.sets) / x.words {
		copy(sets[n*words:], x.sets[n*x.words:][:x.words])
	}
	x.sets, x.words = sets, words
}
