package fleet

// index finds the block that carries a hash. It is a table with open
// addressing and linear probing that holds numbers of blocks alone; the hashes
// stand in the blocks. A world has many caches, which push each other out of
// the processor's, so how few lines of memory a look-up touches is what
// counts.
type index struct {
	slots []int32 // block + 1; 0: empty
	shift uint    // of the product that gives a hash its place
	count int
}

// newIndex has room for that many hashes.
func newIndex(blocks int) index {
	shift := uint(63)
	for 1<<(64-shift) < 2*blocks {
		shift--
	}
	return index{slots: make([]int32, 1<<(64-shift)), shift: shift}
}

func (x *index) home(hash uint64) int { return int(hash * chainMul1 >> x.shift) }

// find returns the block that carries hash, below 0 when none does.
func (x *index) find(blocks []block, hash uint64) int32 {
	for i := x.home(hash); ; i = (i + 1) & (len(x.slots) - 1) {
		b := x.slots[i] - 1
		if b < 0 || blocks[b].hash == hash {
			return b
		}
	}
}

// add enters a block whose hash nobody carries yet.
func (x *index) add(hash uint64, b int32) {
	i := x.home(hash)
	for x.slots[i] != 0 {
		i = (i + 1) & (len(x.slots) - 1)
	}
	x.slots[i] = b + 1
	x.count++
}

// remove takes out the block that carries hash, which must be there. Those
// behind it move up, so that no probe ends early.
func (x *index) remove(blocks []block, hash uint64) {
	mask := len(x.slots) - 1
	hole := x.home(hash)
	for blocks[x.slots[hole]-1].hash != hash {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; x.slots[i] != 0; i = (i + 1) & mask {
		home := x.home(blocks[x.slots[i]-1].hash)
		if (i-home)&mask >= (i-hole)&mask { // it may stand as early as the hole
			x.slots[hole] = x.slots[i]
			hole = i
		}
	}
	x.slots[hole] = 0
	x.count--
}
