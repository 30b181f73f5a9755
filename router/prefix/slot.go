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

	newest, oldest int32 // entries
	recent         recent
}

func (s *slot) open() { *s = slot{used: true, newest: none, oldest: none} }

// touch makes a block the most recently used one of a slot, adding it where it
// is not held, and returns its entry there. at is an entry of the block, or
// none where nobody was found to hold it.
func (x *Index) touch(slot int, hash uint64, at int32, second int64) int32 {
	s := &x.slots[slot]
	if at == none {
		at = x.table.find(&x.pool, hash) // the same block twice in a chain
	}
	mine := none
	if at != none {
		mine = x.on(at, int32(slot))
	}
	if mine != none {
		s.unlink(&x.pool, mine)
		s.recent.drop(x.pool.at(mine).touched)
	} else {
		mine = x.enter(slot, hash, at)
	}
	s.push(&x.pool, mine)
	x.pool.at(mine).touched = s.recent.add(second)
	return mine
}

// enter adds a block that the slot does not hold and returns its entry, which
// has no place in the slot's order yet. at is an entry of the block, or none
// where nobody holds it.
func (x *Index) enter(slot int, hash uint64, at int32) int32 {
	mine := x.pool.take()
	*x.pool.at(mine) = entry{hash: hash, follows: none, slot: int32(slot), shared: none}
	if at == none {
		x.table.add(hash, mine)
	} else {
		x.join(at, mine)
	}
	x.slots[slot].held++
	x.held++
	return mine
}

// forget drops an entry of a slot.
func (x *Index) forget(slot int, i int32) {
	s := &x.slots[slot]
	s.unlink(&x.pool, i)
	s.recent.drop(x.pool.at(i).touched)
	x.leave(i)
	x.pool.free(i)
	s.held--
	x.held--
}

// push puts an entry at the newest end.
func (s *slot) push(p *pool, i int32) {
	e := p.at(i)
	e.newer, e.older = none, s.newest
	if s.newest == none {
		s.oldest = i
	} else {
		p.at(s.newest).newer = i
	}
	s.newest = i
}

func (s *slot) unlink(p *pool, i int32) {
	e := p.at(i)
	if e.newer == none {
		s.newest = e.older
	} else {
		p.at(e.newer).older = e.older
	}
	if e.older == none {
		s.oldest = e.newer
	} else {
		p.at(e.older).newer = e.newer
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

// add counts a use and returns the second it was counted at, modulo 2^32: time
// that goes back counts as the latest.
func (r *recent) add(second int64) uint32 {
	if second > r.latest {
		for n := min(second-r.latest, 64); n > 0; n-- {
			r.counts[(second-n+1)&63] = 0
		}
		r.latest = second
	}
	r.counts[r.latest&63]++
	return uint32(r.latest)
}

// drop takes back what add returned.
func (r *recent) drop(second uint32) {
	if uint32(r.latest)-second < 64 {
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
