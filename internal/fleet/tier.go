package fleet

// tier is a second cache in host memory: hashes of evicted blocks, of which
// the least recently used one goes when it is full. A nil tier holds nothing.
type tier struct {
	nodes        []tierNode
	index        map[uint64]int32 // hash -> node
	newest, last int32
}

type tierNode struct {
	hash         uint64
	newer, older int32
}

const nobody = int32(-1)

// newTier holds that many blocks; nil for none.
func newTier(blocks int) *tier {
	if blocks < 1 {
		return nil
	}
	return &tier{nodes: make([]tierNode, 0, blocks), index: make(map[uint64]int32), newest: nobody, last: nobody}
}

// match counts how many blocks of s from its block number from on, below
// limit, are here without a gap.
func (t *tier) match(s *sequence, from, limit int) int {
	if t == nil {
		return 0
	}
	for i := from; i < limit; i++ {
		hash, ok := s.hash(i)
		if ok {
			_, ok = t.index[hash]
		}
		if !ok {
			return i - from
		}
	}
	return max(0, limit-from)
}

// use touches n blocks of s, the first of them last.
func (t *tier) use(s *sequence, from, n int) {
	for i := from + n - 1; i >= from; i-- {
		if hash, ok := s.hash(i); ok {
			t.add(hash)
		}
	}
}

// add makes a block the most recently used one.
func (t *tier) add(hash uint64) {
	i, ok := t.index[hash]
	switch {
	case ok:
		t.unlink(i)
	case len(t.nodes) < cap(t.nodes):
		i = int32(len(t.nodes))
		t.nodes = append(t.nodes, tierNode{})
	default:
		i = t.last
		t.unlink(i)
		delete(t.index, t.nodes[i].hash)
	}
	t.index[hash] = i
	t.nodes[i] = tierNode{hash: hash, newer: nobody, older: t.newest}
	if t.newest == nobody {
		t.last = i
	} else {
		t.nodes[t.newest].newer = i
	}
	t.newest = i
}

func (t *tier) unlink(i int32) {
	n := t.nodes[i]
	if n.newer == nobody {
		t.newest = n.older
	} else {
		t.nodes[n.newer].older = n.older
	}
	if n.older == nobody {
		t.last = n.newer
	} else {
		t.nodes[n.older].newer = n.newer
	}
}
