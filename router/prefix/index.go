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

	// Seed decides where in memory a hash has its place and nothing else. One
	// that nobody can guess keeps whoever writes prompts from sending all of
	// them to one place.
	Seed uint64
}

// Index is the inverted index: chain hash -> the endpoints that hold the
// block. It holds at most the sum of all capacities in entries, one entry
// being one block on one endpoint.
type Index struct {
	config Config
	slots  []slot
	byID   map[string]int

	pool     pool
	table    table     // chain hash -> one of its entries, which leads to all
	shared   []holders // of blocks that several endpoints hold
	unshared []int32   // of them, to use again
	words    int       // of 64 slots, in a set of endpoints
	held     int       // entries on all slots
	path     []int32   // Insert's memory
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
	x := &Index{config: c, byID: make(map[string]int), words: 1}
	x.pool.freed = none
	x.table.multiplier = c.Seed | 1
	if c.Seed == 0 {
		x.table.multiplier = golden
	}
	return x
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
	x.path = x.path[:0]
	at := none
	for i, hash := range chain {
		known := at != none
		at = x.follow(at, hash)
		x.path = append(x.path, at)
		if known && at == none { // so is most of what follows
			for _, hash := range chain[i+1:] {
				x.table.readAhead(hash)
			}
		}
	}
	// From the tail to the head, so that the head is the last to be evicted.
	behind := none
	for i := len(chain) - 1; i >= 0; i-- {
		n := x.touch(slot, chain[i], x.path[i], second)
		if behind != none {
			x.pool.at(n).follows = behind
		}
		behind = n
	}
	old := s.oldest
	for range s.held - s.capacity {
		e := x.pool.at(old)
		x.table.readAhead(e.hash)
		old = e.newer
	}
	for s.held > s.capacity {
		x.forget(slot, s.oldest)
	}
}

// Drop says that the endpoint does not hold the blocks of a stretch of a
// chain: what follows them there is no longer matched.
func (x *Index) Drop(slot int, stretch []uint64) {
	for _, hash := range stretch {
		i := x.table.find(&x.pool, hash)
		if i == none {
			continue
		}
		if mine := x.on(i, int32(slot)); mine != none {
			x.forget(slot, mine)
		}
	}
}

// follow returns an entry of the block with this hash, or none, where the
// block before it was found at an entry, or at none.
func (x *Index) follow(at int32, hash uint64) int32 {
	if at != none {
		if next := x.pool.at(at).follows; next != none {
			if e := x.pool.at(next); e.hash == hash && e.slot != none {
				return next
			}
		}
	}
	return x.table.find(&x.pool, hash)
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
	at := none
	only := none // slot that alone goes on; from then on alive is not used
	for i, hash := range chain {
		depth := int32(i)
		at = x.follow(at, hash)
		switch {
		case only != none:
			if at == none || x.on(at, only) == none {
				out[only] = depth
				return
			}
		case at == none:
			x.stop(alive, nil, depth, out)
			return
		case x.pool.at(at).shared != none:
			if !x.stop(alive, x.shared[x.pool.at(at).shared].set, depth, out) {
				return
			}
		default:
			only = x.pool.at(at).slot
			bit := uint64(1) << (only % 64)
			goesOn := alive[only/64]&bit != 0
			alive[only/64] &^= bit
			x.stop(alive, nil, depth, out)
			if !goesOn {
				return
			}
		}
	}
	if only != none {
		out[only] = int32(len(chain))
		return
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
