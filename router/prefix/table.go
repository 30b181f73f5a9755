package prefix

// table finds an entry of a block by the block's hash: open addressing with
// linear probing. A cell holds part of the scrambled hash, so that few probes
// touch more than one line of memory. It is cut into parts that grow by
// themselves: no single insertion waits until a large table has moved.
type table struct {
	multiplier uint64
	parts      [1 << partBits]part
	ahead      uint32 // keeps what readAhead reads from being thrown out as unused
}

type part struct {
	cells []cell // a power of two of them
	shift uint   // of a tag, to its place
	count int
}

type cell struct {
	tag   uint32
	entry int32 // plus 1; 0: empty
}

const (
	partBits  = 6
	firstBits = 4 // of a part's first cells

	// golden is 2^64 divided by the golden ratio: multiplied with it, near
	// numbers come to lie far apart (Knuth, The Art of Computer Programming 6.4).
	golden = 0x9e3779b97f4a7c15
)

// place is where a hash belongs: its part, and the tag whose upper bits say
// where in it.
func (t *table) place(hash uint64) (*part, uint32) {
	product := hash * t.multiplier
	return &t.parts[product>>(64-partBits)], uint32(product >> (32 - partBits))
}

// readAhead reads the cell where a hash belongs. Searches wait for memory one
// after the other, for each decides by what it finds; reads that decide nothing
// wait together. So reading ahead for many is several times as fast.
func (t *table) readAhead(hash uint64) {
	if part, tag := t.place(hash); part.count > 0 {
		t.ahead ^= part.cells[tag>>part.shift].tag
	}
}

// find returns an entry of the block with this hash, or none.
func (t *table) find(p *pool, hash uint64) int32 {
	part, tag := t.place(hash)
	if part.count == 0 {
		return none
	}
	mask := uint32(len(part.cells) - 1)
	for i := tag >> part.shift; ; i++ {
		c := part.cells[i&mask]
		if c.entry == 0 || c.tag == tag && p.at(c.entry-1).hash == hash {
			return c.entry - 1
		}
	}
}

// add enters a block that nobody held.
func (t *table) add(hash uint64, entry int32) {
	part, tag := t.place(hash)
	if 3*part.count >= 2*len(part.cells) {
		part.grow()
	}
	part.put(cell{tag, entry + 1})
	part.count++
}

func (p *part) put(c cell) {
	mask := uint32(len(p.cells) - 1)
	i := c.tag >> p.shift & mask
	for p.cells[i].entry != 0 {
		i = (i + 1) & mask
	}
	p.cells[i] = c
}

func (p *part) grow() {
	was := p.cells
	size := max(1<<firstBits, 2*len(was))
	p.cells = make([]cell, size)
	for p.shift = 32; size > 1; size >>= 1 {
		p.shift--
	}
	for _, c := range was {
		if c.entry != 0 {
			p.put(c)
		}
	}
}

// replace puts another entry of the same block where this one stood. Where
// that is another already, nothing changes.
func (t *table) replace(hash uint64, entry, by int32) {
	part, tag := t.place(hash)
	mask := uint32(len(part.cells) - 1)
	for i := tag >> part.shift; part.cells[i&mask].entry != 0; i++ {
		if c := &part.cells[i&mask]; c.entry == entry+1 {
			c.entry = by + 1
			return
		}
	}
}

// remove takes out a block by the entry that stands for it. Those behind it
// move up, so that no probe ends early.
func (t *table) remove(hash uint64, entry int32) {
	part, tag := t.place(hash)
	mask := uint32(len(part.cells) - 1)
	hole := tag >> part.shift
	for part.cells[hole].entry != entry+1 {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; part.cells[i].entry != 0; i = (i + 1) & mask {
		home := part.cells[i].tag >> part.shift
		if (i-home)&mask >= (i-hole)&mask { // it may stand as early as the hole
			part.cells[hole] = part.cells[i]
			hole = i
		}
	}
	part.cells[hole] = cell{}
	part.count--
}
