package fleet

import "github.com/spillway-llm/spillway/internal/workload"

// content hashes the text of one request, and of its answer, as the caches of
// engines and the router's index see it.
//
// A workload names text by ids, each for so many tokens; a cache has blocks of
// its own size. The hash of a cache block covers every id that has a token in
// it or before it. So two prompts share exactly the cache blocks that lie
// wholly inside what their ids say is the same.
type content struct {
	block int    // tokens in a cache block
	seed  uint64 // keeps runs with other seeds apart
}

// chain appends to dst the hashes of the first n blocks of a text. What no id
// names is nobody else's: own tells it apart.
func (x content) chain(dst []uint64, t *workload.Turn, n int, own uint64) []uint64 {
	ids, size := t.Answered, t.BlockTokens
	if len(ids) == 0 || size <= 0 {
		ids, size = nil, x.block
	}
	h, used := x.seed, 0
	for i := range n {
		for end := (i + 1) * x.block; used*size < end; used++ {
			id := own + uint64(used)
			if used < len(ids) {
				id = ids[used]
			}
			h = ExtendChain(h, id)
		}
		dst = append(dst, ExtendChain(h, uint64(i)))
	}
	return dst
}
