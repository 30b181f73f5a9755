package prefix

import "time"

// slot is one endpoint's share of the index: its blocks in the order they
// were last used.
type slot struct {
	used           bool
	capacity       int // blocks
	held           int // blocks
	capacityTokens float64
	tokensPerBlock float64

	entries        map[uint64]int32 // chain hash -> block
	blocks         []block
	newest, oldest int32
	free           int32 // blocks to use again, linked through older

	recent recent
}

// block is one entry of the index.
type block struct {
	hash         uint64
	node         int32
	newer, older int32
	touched      int64 // second
}

// none ends a list of blocks.
const none = int32(-1)

func (s *slot) open() {
	*s = slot{used: true, entries: make(map[uint64]int32), newest: none, oldest: none, free: none}
}

// touch makes hash the most recently used block of a slot, adding it where it
// is not held.
func (x *Index) touch(slot int, hash uint64, second int64) {
	s := &x.slots[slot]
	b, ok := s.entries[hash]
	if ok {
		s.unlink(b)
		s.recent.drop(s.blocks[b].touched)
	} else {
		b = s.take()
		s.blocks[b] = block{hash: hash, node: x.enter(slot, hash)}
		s.entries[hash] = b
		s.held++
		x.held++
	}
	s.push(b)
	s.blocks[b].touched = s.recent.add(second)
}

// forget drops a block of a slot.
func (x *Index) forget(slot int, i int32) {
	s := &x.slots[slot]
	b := &s.blocks[i]
	s.unlink(i)
	s.recent.drop(b.touched)
	delete(s.entries, b.hash)
	x.leave(slot, b.hash, b.node)
	b.older = s.free
	s.free = i
	s.held--
	x.held--
}

// enter adds a slot to the set of hash and returns its node.
func (x *Index) enter(slot int, hash uint64) int32 {
	node, ok := x.nodes[hash]
	if !ok {
		if n := len(x.freed); n > 0 {
			node, x.freed = x.freed[n-1], x.freed[:n-1]
		} else {
			node = int32(len(x.sets) / x.words)
			for range x.words {
				x.sets = append(x.sets, 0)
			}
		}
		x.nodes[hash] = node
	}
	x.set(node)[slot/64] |= 1 << (slot % 64)
	return node
}

// leave takes a slot out of the set of hash, and the hash out of the index
// when nobody is left.
func (x *Index) leave(slot int, hash uint64, node int32) {
	set := x.set(node)
	set[slot/64] &^= 1 << (slot % 64)
	for _, w := range set {
		if w != 0 {
			return
		}
	}
	delete(x.nodes, hash)
	x.freed = append(x.freed, node)
}

// take returns an unused block.
func (s *slot) take() int32 {
	if s.free == none {
		s.blocks = append(s.blocks, block{})
		return int32(len(s.blocks) - 1)
	}
	b := s.free
	s.free = s.blocks[b].older
	return b
}

// push puts a block at the newest end.
func (s *slot) push(i int32) {
	b := &s.blocks[i]
	b.newer, b.older = none, s.newest
	if s.newest == none {
		s.oldest = i
	} else {
		s.blocks[s.newest].newer = i
	}
	s.newest = i
}

func (s *slot) unlink(i int32) {
	b := &s.blocks[i]
	if b.newer == none {
		s.newest = b.older
	} else {
		s.blocks[b.newer].older = b.older
	}
	if b.older == none {
		s.oldest = b.newer
	} else {
		s.blocks[b.older].newer = b.newer
	}
}

// HotWindow is the longest window Hot can answer for.
const HotWindow = 63 * time.Second

// Hot is how many tokens of the endpoint's blocks were used within the window
// before now, to the second: what it can hardly evict without harm. window is
// at most HotWindow.
func (x *Index) Hot(slot int, now time.Time, window time.Duration) float64 {
	s := &x.slots[slot]
	return float64(s.recent.since(now.Add(-min(window, HotWindow)).Unix())) * s.tokensPerBlock
}

// recent counts blocks by the second of their last use, for the 64 seconds up
// to the latest use.
type recent struct {
	latest int64
	counts [64]int32 // by second modulo 64
}

// add counts a use and returns the second it was counted at: time that goes
// back counts as the latest.
func (r *recent) add(second int64) int64 {
	if second > r.latest {
		for n := min(second-r.latest, 64); n > 0; n-- {
			r.counts[(second-n+1)&63] = 0
		}
		r.latest = second
	}
	r.counts[r.latest&63]++
	return r.latest
}

// drop takes back what add returned.
func (r *recent) drop(second int64) {
	if second > r.latest-64 {
		r.counts[second&63]--
	}
}

// since counts the uses after second.
func (r *recent) since(second int64) (n int32) {
	for t := max(second+1, r.latest-63); t <= r.latest; t++ {
		n += r.counts[t&63]
	}
	return n
}
