package prefix

import "time"

// Held is one block that an endpoint is believed to hold.
type Held struct {
	Hash uint64
	Age  time.Duration // since its last use, to the second; none below 0
}

// mostAge is the oldest that a restored block may be: seconds of uses are kept
// modulo 2^32, and one of an age near that would look like a use of now.
const mostAge = 1 << 30 * time.Second

// Held appends the blocks of a slot to out, the most recently used first.
func (x *Index) Held(slot int, now time.Time, out []Held) []Held {
	s := &x.slots[slot]
	second := uint32(now.Unix())
	for i := s.newest; i != none; {
		e := x.pool.at(i)
		age := max(0, int32(second-e.touched)) // modulo 2^32: a clock that went back makes no age of 136 years
		out = append(out, Held{e.hash, time.Duration(age) * time.Second})
		i = e.older
	}
	return out
}

// Restore adds blocks, the most recently used first as Held gives them, that
// the endpoint is believed to hold by somebody who has watched it for longer.
// They count as used before all that the slot holds, and none of these is
// evicted for them: what no longer fits is left out. It returns how many were
// added.
func (x *Index) Restore(slot int, blocks []Held, now time.Time) (added int) {
	s := &x.slots[slot]
	before := none
	for _, b := range blocks {
		if s.held >= s.capacity {
			break
		}
		at := x.table.find(&x.pool, b.Hash)
		if at != none && x.on(at, int32(slot)) != none {
			before = none
			continue
		}
		mine := x.enter(slot, b.Hash, at)
		s.append(&x.pool, mine)
		x.pool.at(mine).touched = s.recent.addAt(now.Add(-min(max(0, b.Age), mostAge)).Unix())
		if before != none { // in a chain the block before is the one used a little later
			x.pool.at(before).follows = mine
		}
		before = mine
		added++
	}
	return added
}

// append makes entry i the least recently used one.
func (s *slot) append(p *pool, i int32) {
	e := p.at(i)
	e.newer, e.older = s.oldest, none
	if s.oldest == none {
		s.newest = i
	} else {
		p.at(s.oldest).older = i
	}
	s.oldest = i
}

// addAt counts a use in the past and returns the second it was counted at,
// modulo 2^32: one in the future counts as now, one that no window reaches is
// not counted.
func (r *recent) addAt(second int64) uint32 {
	if second >= r.latest {
		return r.add(second)
	}
	if r.latest-second < 64 {
		r.counts[second&63]++
	}
	return uint32(second)
}
