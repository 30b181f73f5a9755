package fleet

// cache is the KV cache: a fixed number of blocks, reference-counted, with an
// index from block hash to block. Blocks that nobody holds stay findable until
// they are taken, least recently released first.
type cache struct {
	blocks  []block // the last one is the head of the free ring
	index   index
	free    int   // blocks in the ring
	refs    int   // sum of the references of all blocks
	offload *tier // takes what is evicted; nil: none
	seen    sight
}

type block struct {
	hash       uint64
	refs       int32
	prev, next int32 // neighbours in the free ring while refs is 0
	behind     int32 // the block that followed it in a prompt when last seen: a guess that saves a search
	hashed     bool
	watched    bool // is part of what was seen
}

func newCache(blocks, offloaded int) *cache {
	c := &cache{offload: newTier(offloaded), blocks: make([]block, blocks+1), index: newIndex(blocks)}
	head := int32(blocks)
	c.blocks[head].prev, c.blocks[head].next = head, head
	for i := range head {
		c.insertBefore(head, i)
	}
	return c
}

// total is the number of blocks.
func (c *cache) total() int { return len(c.blocks) - 1 }

// used is the fraction of blocks that are held.
func (c *cache) used() float64 { return float64(c.total()-c.free) / float64(c.total()) }

func (c *cache) insertBefore(at, i int32) {
	prev := c.blocks[at].prev
	c.blocks[i].prev, c.blocks[i].next = prev, at
	c.blocks[prev].next, c.blocks[at].prev = i, i
	c.free++
}

func (c *cache) unlink(i int32) {
	b := &c.blocks[i]
	c.blocks[b.prev].next, c.blocks[b.next].prev = b.next, b.prev
	c.free--
}

// shared is how much is held for each reference to it: 1 when nobody shares a
// block, less the more they do.
func (c *cache) shared() float64 {
	if c.refs == 0 {
		return 1
	}
	return float64(c.total()-c.free) / float64(c.refs)
}

// hold takes one reference on each block.
func (c *cache) hold(blocks []int32) {
	for _, i := range blocks {
		b := &c.blocks[i]
		if b.refs == 0 {
			c.unlink(i)
			c.seen.stale = c.seen.stale || b.watched
		}
		b.refs++
	}
	c.refs += len(blocks)
}

// take removes the least recently released block from the ring and from the
// index, and holds it. The ring must not be empty.
func (c *cache) take() int32 {
	i := c.blocks[c.total()].next
	c.unlink(i)
	b := &c.blocks[i]
	c.seen.stale = c.seen.stale || b.watched
	if b.hashed {
		c.index.remove(b.hash, i)
		b.hashed = false
		if c.offload != nil {
			c.offload.add(b.hash)
		}
	}
	b.refs = 1
	c.refs++
	return i
}

// readAhead prepares for n blocks to be taken.
func (c *cache) readAhead(n int) {
	for i := c.blocks[c.total()].next; n > 0; n-- {
		b := &c.blocks[i]
		c.index.readAhead(b.hash)
		i = b.next
	}
}

// seal makes block k of a sequence, which is full, findable, unless a block
// with its content already is.
func (c *cache) seal(held []int32, k int, hash uint64) {
	i := held[k]
	if k > 0 {
		c.blocks[held[k-1]].behind = i
	}
	if c.index.find(c.blocks, hash) >= 0 {
		return
	}
	c.blocks[i].hash, c.blocks[i].hashed = hash, true
	c.index.add(hash, i)
}

// find returns the block that carries hash, below 0 when none does, where the
// one before it in the prompt was found in a block, or below 0 in none.
func (c *cache) find(before int32, hash uint64) int32 {
	if before < 0 {
		return c.index.find(c.blocks, hash)
	}
	guess := c.blocks[before].behind
	if b := &c.blocks[guess]; b.hashed && b.hash == hash {
		return guess
	}
	n := c.index.find(c.blocks, hash)
	if n >= 0 {
		c.blocks[before].behind = n
	}
	return n
}

// release drops one reference on each block, last block first, so that the
// tail of a chain is taken before its beginning. Blocks without a hash can
// never be found again and are taken first.
func (c *cache) release(blocks []int32) {
	head := int32(c.total())
	c.refs -= len(blocks)
	for k := len(blocks) - 1; k >= 0; k-- {
		i := blocks[k]
		b := &c.blocks[i]
		if b.refs--; b.refs > 0 {
			continue
		}
		c.seen.stale = c.seen.stale || b.watched
		if b.hashed {
			c.insertBefore(head, i)
		} else {
			c.insertBefore(c.blocks[head].next, i)
		}
	}
}
