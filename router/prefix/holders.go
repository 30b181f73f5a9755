package prefix

import (
	"math/bits"
	"slices"
)

// holders are the endpoints that hold a block, of one that several hold.
type holders struct {
	set     []uint64 // bit = slot
	entries []int32  // theirs, ordered by slot
}

// rank is how many holders have a lower slot.
func (h *holders) rank(slot int32) int {
	n := 0
	for _, w := range h.set[:slot/64] {
		n += bits.OnesCount64(w)
	}
	return n + bits.OnesCount64(h.set[slot/64]&(1<<(slot%64)-1))
}

func (h *holders) has(slot int32) bool { return h.set[slot/64]>>(slot%64)&1 != 0 }

// on returns the entry of a slot, or none.
func (h *holders) on(slot int32) int32 {
	if !h.has(slot) {
		return none
	}
	return h.entries[h.rank(slot)]
}

func (h *holders) add(slot, entry int32) {
	h.entries = slices.Insert(h.entries, h.rank(slot), entry)
	h.set[slot/64] |= 1 << (slot % 64)
}

func (h *holders) remove(slot int32) {
	n := h.rank(slot)
	h.entries = slices.Delete(h.entries, n, n+1)
	h.set[slot/64] &^= 1 << (slot % 64)
}

// on returns the entry that a slot has of the block of entry i, or none.
func (x *Index) on(i, slot int32) int32 {
	e := x.pool.at(i)
	switch {
	case e.slot == slot:
		return i
	case e.shared != none:
		return x.shared[e.shared].on(slot)
	}
	return none
}

// join makes entry n one of the same block as entry i, which others hold.
func (x *Index) join(i, n int32) {
	e, joins := x.pool.at(i), x.pool.at(n)
	if e.shared == none {
		e.shared = x.freshHolders()
		x.shared[e.shared].add(e.slot, i)
	}
	joins.shared = e.shared
	x.shared[e.shared].add(joins.slot, n)
}

// leave takes entry i out of what is known of its block.
func (x *Index) leave(i int32) {
	e := x.pool.at(i)
	if e.shared == none {
		x.table.remove(e.hash, i)
		return
	}
	h := &x.shared[e.shared]
	h.remove(e.slot)
	other := h.entries[0]
	x.table.replace(e.hash, i, other)
	if len(h.entries) == 1 {
		h.remove(x.pool.at(other).slot)
		x.pool.at(other).shared = none
		x.unshared = append(x.unshared, e.shared)
	}
}

// freshHolders returns the number of empty holders.
func (x *Index) freshHolders() int32 {
	if n := len(x.unshared); n > 0 {
		k := x.unshared[n-1]
		x.unshared = x.unshared[:n-1]
		return k
	}
	x.shared = append(x.shared, holders{set: make([]uint64, x.words)})
	return int32(len(x.shared) - 1)
}

// widen makes room for 64 more slots.
func (x *Index) widen() {
	x.words++
	for k := range x.shared {
		x.shared[k].set = append(x.shared[k].set, 0)
	}
}
