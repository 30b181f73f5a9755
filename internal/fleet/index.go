package fleet

// index finds the block that carries a hash. It is a table with open
// addressing and linear probing. A cell holds part of the scrambled hash beside
// the number of the block: a world has many caches, which push each other out
// of the processor's, so how few lines of memory a look-up touches is what
// counts.
type index struct {
	cells []cell
	shift uint // of a tag, to its place
	count int
	ahead uint32 // keeps what readAhead reads from being thrown out as unused
}

type cell struct {
	tag   uint32 // upper half of the scrambled hash
	block int32  // plus 1; 0: empty
}

// newIndex has room for that many hashes.
func newIndex(blocks int) index {
	shift := uint(31)
	for 2<<(31-shift) < blocks+blocks/2 {
		shift--
	}
	return index{cells: make([]cell, 2<<(31-shift)), shift: shift}
}

func tagOf(hash uint64) uint32 { return uint32(hash * chainMul1 >> 32) }

// readAhead reads the cell where a hash belongs. Look-ups wait for memory one
// after the other, for each decides by what it finds; reads that decide nothing
// wait together. So reading ahead for many is several times as fast.
func (x *index) readAhead(hash uint64) { x.ahead ^= x.cells[tagOf(hash)>>x.shift].tag }

// find returns the block that carries hash, below 0 when none does.
func (x *index) find(blocks []block, hash uint64) int32 {
	tag, mask := tagOf(hash), len(x.cells)-1
	for i := int(tag >> x.shift); ; i++ {
		c := x.cells[i&mask]
		if c.block == 0 || c.tag == tag && blocks[c.block-1].hash == hash {
			return c.block - 1
		}
	}
}

// add enters a block whose hash nobody carries yet.
func (x *index) add(hash uint64, b int32) {
	tag, mask := tagOf(hash), len(x.cells)-1
	i := int(tag >> x.shift)
	for x.cells[i].block != 0 {
		i = (i + 1) & mask
	}
	x.cells[i] = cell{tag, b + 1}
	x.count++
}

// remove takes out block b, which carries hash and must be there. Those behind
// it move up, so that no probe ends early.
func (x *index) remove(hash uint64, b int32) {
	mask := len(x.cells) - 1
	hole := int(tagOf(hash) >> x.shift)
	for x.cells[hole].block != b+1 {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; x.cells[i].block != 0; i = (i + 1) & mask {
		home := int(x.cells[i].tag >> x.shift)
		if (i-home)&mask >= (i-hole)&mask { // it may stand as early as the hole
			x.cells[hole] = x.cells[i]
			hole = i
		}
	}
	x.cells[hole] = cell{}
	x.count--
}
