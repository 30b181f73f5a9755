package fleet_test

import (
	"cmp"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
)

// twin is the engine written the dumb way: blocks are searched, never linked
// or indexed, and every question is answered by counting again.
type twin struct {
	p       physics.Profile
	now     time.Duration
	blocks  []*twinBlock
	stamp   int // of the latest release
	waiting []*twinSeq
	running []*twinSeq
}

type twinBlock struct {
	hash   uint64
	hashed bool
	refs   int
	stamp  int // order among free blocks
}

type twinSeq struct {
	id                uint64
	prompt, output    int
	chain             []uint64 // of prompt and output
	arrived           time.Duration
	done, made, chunk int
	cached            int
	admitted          bool
	blocks            []*twinBlock
}

func newTwin(p physics.Profile) *twin {
	w := &twin{p: p}
	for i := range p.KVCapacityTokens / p.BlockTokens {
		w.blocks = append(w.blocks, &twinBlock{stamp: i})
	}
	w.stamp = len(w.blocks)
	return w
}

func (w *twin) find(hash uint64) *twinBlock {
	for _, b := range w.blocks {
		if b.hashed && b.hash == hash {
			return b
		}
	}
	return nil
}

func (w *twin) free() (free []*twinBlock) {
	for _, b := range w.blocks {
		if b.refs == 0 {
			free = append(free, b)
		}
	}
	slices.SortFunc(free, func(a, b *twinBlock) int { return cmp.Compare(a.stamp, b.stamp) })
	return free
}

func (w *twin) release(s *twinSeq) {
	for _, b := range slices.Backward(s.blocks) {
		if b.refs--; b.refs == 0 {
			w.stamp++
			if b.stamp = w.stamp; !b.hashed {
				b.stamp = -w.stamp
			}
		}
	}
	s.blocks = nil
}

// grow gives s room for tokens more and reports whether there was enough.
func (w *twin) grow(s *twinSeq, tokens int) bool {
	size := w.p.BlockTokens
	need := (s.done + tokens + size - 1) / size
	free := w.free()
	if need-len(s.blocks) > len(free) {
		return false
	}
	for i := 0; len(s.blocks) < need; i++ {
		*free[i] = twinBlock{refs: 1}
		s.blocks = append(s.blocks, free[i])
	}
	for i := s.done / size; i < (s.done+tokens)/size; i++ {
		if i < len(s.chain) && w.find(s.chain[i]) == nil {
			s.blocks[i].hash, s.blocks[i].hashed = s.chain[i], true
		}
	}
	return true
}

func (w *twin) step() time.Duration {
	budget := w.p.MaxBatchedTokens
	var prefill, attended, decoding, read float64
	schedule := func(s *twinSeq, tokens int) {
		budget -= tokens
		s.chunk = tokens
		if tokens == 1 && s.made > 0 && s.done == s.prompt+s.made-1 {
			decoding++
			read += float64(s.prompt + s.made)
			return
		}
		prefill += float64(tokens)
		attended += float64(tokens) * (float64(s.done) + float64(tokens)/2)
	}
	preempted := false
	for i := 0; i < len(w.running) && budget > 0; i++ {
		s := w.running[i]
		tokens := min(s.prompt+s.made-s.done, budget)
		for !w.grow(s, tokens) {
			victim := w.running[len(w.running)-1]
			w.running = w.running[:len(w.running)-1]
			w.release(victim)
			victim.done = 0
			w.waiting = append([]*twinSeq{victim}, w.waiting...)
			if preempted = true; victim == s {
				tokens = 0
				break
			}
		}
		if tokens > 0 {
			schedule(s, tokens)
		}
	}
	for !preempted && len(w.waiting) > 0 && budget > 0 && len(w.running) < w.p.MaxNumSeqs {
		s := w.waiting[0]
		limit := (s.prompt + s.made - 1) / w.p.BlockTokens
		for _, h := range s.chain[:min(limit, len(s.chain))] {
			b := w.find(h)
			if b == nil {
				break
			}
			b.refs++
			s.blocks = append(s.blocks, b)
		}
		s.done = len(s.blocks) * w.p.BlockTokens
		tokens := min(s.prompt+s.made-s.done, budget)
		if !w.grow(s, tokens) {
			for _, b := range s.blocks { // as if never looked at
				b.refs--
			}
			s.blocks, s.done = nil, 0
			break
		}
		if !s.admitted {
			s.admitted, s.cached = true, s.done
		}
		w.waiting = w.waiting[1:]
		w.running = append(w.running, s)
		schedule(s, tokens)
	}
	c := w.p.Coefficients
	return time.Duration((c.A + c.B*prefill + c.C*attended + c.D*decoding + c.E*read) * float64(time.Second))
}

// run plays a whole script: requests in order of arrival.
func (w *twin) run(script []*twinSeq) (all []happened) {
	for {
		for len(script) > 0 && script[0].arrived <= w.now {
			w.waiting = append(w.waiting, script[0])
			script = script[1:]
		}
		if len(w.waiting)+len(w.running) == 0 {
			if len(script) == 0 {
				return all
			}
			w.now = script[0].arrived
			continue
		}
		w.now += w.step()
		w.running = slices.DeleteFunc(w.running, func(s *twinSeq) bool {
			s.done += s.chunk
			scheduled := s.chunk > 0
			if s.chunk = 0; !scheduled || s.done < s.prompt+s.made {
				return false
			}
			s.made++
			all = append(all, happened{s.id, fleet.Token, w.now, s.made, s.cached})
			if s.made < s.output {
				return false
			}
			all = append(all, happened{s.id, fleet.Finished, w.now, s.made, s.cached})
			w.release(s)
			return true
		})
	}
}
