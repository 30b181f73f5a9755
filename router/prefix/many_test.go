package prefix_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/router/prefix"
)

// countedCache is an endpoint's cache as a map: block -> when it was used, in
// uses.
type countedCache struct {
	capacity int
	uses     map[uint64]int
}

func (c *countedCache) insert(chain []uint64, clock *int) {
	for i := len(chain) - 1; i >= 0; i-- {
		*clock++
		c.uses[chain[i]] = *clock
	}
	for len(c.uses) > c.capacity {
		oldest, hash := *clock+1, uint64(0)
		for h, at := range c.uses {
			if at < oldest {
				oldest, hash = at, h
			}
		}
		delete(c.uses, hash)
	}
}

// Thousands of blocks make the index grow many times, and conversations that
// branch, move and come back make what it remembers of their order wrong.
func TestManyBlocksAgainstMaps(t *testing.T) {
	for _, seed := range []uint64{0, 12345} {
		x := prefix.New(prefix.Config{BlockBytes: 4, TokensPerByte: 0.25, Seed: seed})
		r := rand.New(rand.NewPCG(3, 4))
		caches := make([]countedCache, 5)
		for i := range caches {
			caches[i] = countedCache{capacity: 500 + 100*i, uses: map[uint64]int{}}
			x.SetCapacity(x.Slot(string(rune('a'+i))), float64(caches[i].capacity), 0)
		}
		var chains [][]uint64
		clock := 0
		for range 1500 {
			var chain []uint64
			if len(chains) > 0 && r.IntN(8) > 0 {
				was := chains[r.IntN(len(chains))]
				chain = append(chain, was[:r.IntN(len(was)+1)]...)
			}
			for n := 1 + r.IntN(40); n > 0 && len(chain) < 300; n-- {
				chain = append(chain, r.Uint64())
			}
			chains = append(chains, chain)
			got := match(x, chain)
			held := 0
			for i := range caches {
				n := 0
				for n < len(chain) && caches[i].uses[chain[n]] > 0 {
					n++
				}
				if got[i] != int32(n) {
					t.Fatalf("endpoint %d matches %d blocks, want %d", i, got[i], n)
				}
				held += len(caches[i].uses)
			}
			if x.Len() != held {
				t.Fatalf("%d entries, want %d", x.Len(), held)
			}
			to := r.IntN(len(caches))
			x.Insert(to, chain, start.Add(time.Duration(clock)))
			caches[to].insert(chain, &clock)
			if r.IntN(10) == 0 {
				from := r.IntN(len(chain))
				x.Drop(to, chain[from:])
				for _, hash := range chain[from:] {
					delete(caches[to].uses, hash)
				}
			}
		}
	}
}
