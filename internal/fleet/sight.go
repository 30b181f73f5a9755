package fleet

// sight is which leading blocks of a waiting sequence are in the cache. The
// first in line may wait for many steps, and its prompt may have thousands of
// blocks, so what was seen stays seen until one of these blocks is taken, held
// or let go.
type sight struct {
	by    *sequence // nil: nobody looks
	hits  []int32
	idle  int  // of them, that nobody holds
	stale bool // a block of hits has changed
}

// look returns the leading blocks of s, at most limit, that the index knows,
// and how many of them nobody holds. It holds none of them. The slice is valid
// until somebody else looks.
func (c *cache) look(s *sequence, limit int) (hits []int32, idle int) {
	v := &c.seen
	if v.by != s || v.stale {
		c.lookAway()
		v.by = s
	}
	before := int32(-1)
	if n := len(v.hits); n > 0 {
		before = v.hits[n-1]
	}
	for i := len(v.hits); i < limit; i++ {
		hash, ok := s.hash(i)
		if !ok {
			break
		}
		n := c.find(before, hash)
		if n < 0 {
			break
		}
		before = n
		b := &c.blocks[n]
		b.watched = true
		if b.refs == 0 {
			v.idle++
		}
		v.hits = append(v.hits, n)
	}
	return v.hits, v.idle
}

// lookAway forgets what was seen.
func (c *cache) lookAway() {
	for _, b := range c.seen.hits {
		c.blocks[b].watched = false
	}
	c.seen = sight{hits: c.seen.hits[:0]}
}
