package prefix

// entry is one block on one endpoint.
type entry struct {
	hash uint64
	// follows is an entry of the block that stood behind this one when it was
	// last used. It is a guess, to be compared: what is asked for next is
	// mostly there, and found without a search.
	follows      int32
	newer, older int32  // neighbours in the endpoint's order of use
	touched      uint32 // second of the last use, modulo 2^32
	slot         int32  // of the endpoint; none: not in use
	shared       int32  // number of the block's holders; none: this endpoint alone
}

// none is no entry, slot or number.
const none = int32(-1)

// pool is the memory of all entries. It grows by pages, which never move, so
// that growing takes no longer the more there are; what is let go is used
// again. Blocks of one prompt mostly stand side by side.
type pool struct {
	pages []*[pageEntries]entry
	fresh int32 // entries from here on were never used
	freed int32 // first of those to use again, linked through older
}

const (
	pageBits    = 10
	pageEntries = 1 << pageBits
)

func (p *pool) at(i int32) *entry { return &p.pages[i>>pageBits][i&(pageEntries-1)] }

// take returns an entry to fill in.
func (p *pool) take() int32 {
	if i := p.freed; i != none {
		p.freed = p.at(i).older
		return i
	}
	if int(p.fresh) == len(p.pages)*pageEntries {
		p.pages = append(p.pages, new([pageEntries]entry))
	}
	p.fresh++
	return p.fresh - 1
}

func (p *pool) free(i int32) {
	e := p.at(i)
	e.slot, e.older = none, p.freed
	p.freed = i
}
