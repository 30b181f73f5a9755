package fleet

import "time"

// Hold lets the cache hold a prompt's blocks, as if they had just been computed and
// released: of more than is free, the first ones.
func (e *Engine) Hold(chain []uint64) {
	c := e.cache
	held := make([]int32, 0, len(chain))
	for k, hash := range chain {
		if b := c.index.find(c.blocks, hash); b >= 0 {
			c.hold([]int32{b})
			held = append(held, b)
			continue
		}
		if c.free == 0 {
			break
		}
		held = append(held, c.take())
		c.seal(held, k, hash)
	}
	c.release(held)
}

// begins lets an endpoint hold what its spec says, and a router know of it.
func (w *world) begins(endpoint int, tell func(chain []uint64)) {
	var chain []uint64
	for i := range w.endpoints[endpoint].spec.Holds {
		t := w.endpoints[endpoint].spec.Holds[i] // its text is all prompt
		t.Answered = t.Blocks
		chain = w.content.chain(chain[:0], &t, len(t.Blocks)*t.BlockTokens/w.content.block, 0)
		tell(chain)
	}
}

// hold fills the caches.
func (w *world) hold() {
	for i, e := range w.endpoints {
		w.begins(i, func(chain []uint64) {
			for _, r := range e.ranks {
				r.Hold(chain)
			}
		})
	}
}

// told lets a router know of what an endpoint holds.
func (w *world) told(r *replica, endpoint int, now time.Time) {
	w.begins(endpoint, func(chain []uint64) { r.index.Insert(r.targets[endpoint].slot, chain, now) })
}
