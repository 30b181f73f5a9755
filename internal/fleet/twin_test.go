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
	p        physics.Profile
	options  fleet.Options // AsyncScheduling, Acceptance of "" in whole tokens, LongPrefillTokens, Offload..., SeparateReads
	offload  []uint64      // oldest first
	began    time.Duration // of the step before
	late     []int         // lengths of sequences that ended in it
	script   []*twinSeq    // submitted and not in line
	stepping bool
	stepEnd  time.Duration
	now      time.Duration
	blocks   []*twinBlock
	stamp    int // of the latest release
	waiting  []*twinSeq
	running  []*twinSeq
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
	more              int // tokens guessed ahead in this step
	cached            int
	admitted          bool
	cancelled         bool
	blocks            []*twinBlock
}

func newTwin(p physics.Profile, o fleet.Options) *twin {
	w := &twin{p: p, options: o}
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
		if free[i].hashed {
			w.remember(free[i].hash)
		}
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

// remember makes a hash the youngest of the offload tier.
func (w *twin) remember(hash uint64) {
	room := w.options.OffloadTokens / w.p.BlockTokens
	if room == 0 {
		return
	}
	w.offload = slices.DeleteFunc(w.offload, func(h uint64) bool { return h == hash })
	if len(w.offload) == room {
		w.offload = w.offload[1:]
	}
	w.offload = append(w.offload, hash)
}

// shared is distinct blocks held over references to them.
func (w *twin) shared() float64 {
	distinct, refs := 0.0, 0.0
	for _, b := range w.blocks {
		if b.refs > 0 {
			distinct++
			refs += float64(b.refs)
		}
	}
	if refs == 0 || w.options.SeparateReads {
		return 1
	}
	return distinct / refs
}

func (w *twin) portion(left, budget int) int {
	if w.options.LongPrefillTokens > 0 {
		left = min(left, w.options.LongPrefillTokens)
	}
	return min(left, budget)
}

func (w *twin) step() time.Duration {
	budget := w.p.MaxBatchedTokens
	var prefill, attended, decoding, read, loaded float64
	schedule := func(s *twinSeq, tokens int) {
		budget -= tokens
		s.chunk = tokens
		if s.made > 0 && s.done == s.prompt+s.made-1 {
			s.more = tokens - 1
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
		tokens := w.portion(s.prompt+s.made-s.done, budget)
		if s.made > 0 && s.prompt+s.made-s.done == 1 {
			tokens = min(max(1, int(w.options.Acceptance[""])), budget, s.output-s.made)
		}
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
		hits := len(s.blocks)
		found := hits
		for found < min(limit, len(s.chain)) && slices.Contains(w.offload, s.chain[found]) {
			found++
		}
		s.done = found * w.p.BlockTokens
		tokens := w.portion(s.prompt+s.made-s.done, budget)
		sealFrom := s.done
		s.done = hits * w.p.BlockTokens
		brought := slices.Clone(s.chain[hits:found])
		saved := slices.Clone(w.offload)
		for _, h := range slices.Backward(brought) {
			w.remember(h)
		}
		if !w.grow(s, sealFrom-s.done+tokens) {
			w.offload = saved
			for _, b := range s.blocks { // as if never looked at
				b.refs--
			}
			s.blocks, s.done = nil, 0
			break
		}
		s.done = sealFrom
		loaded += float64(len(brought) * w.p.BlockTokens)
		if !s.admitted {
			s.admitted, s.cached = true, s.done
		}
		w.waiting = w.waiting[1:]
		w.running = append(w.running, s)
		schedule(s, tokens)
	}
	for _, length := range w.late {
		decoding++
		read += float64(length)
	}
	w.late = nil
	c := w.p.Coefficients
	seconds := c.A + c.B*prefill + c.C*attended + c.D*decoding + c.E*(read*w.shared())
	seconds += loaded * w.options.OffloadSeconds
	return time.Duration(seconds * float64(time.Second))
}

// run plays a whole script: requests in order of arrival.
func (w *twin) run(script []*twinSeq) (all []happened) {
	w.script = script
	for {
		at, ok := w.next()
		if !ok {
			return all
		}
		all = append(all, w.act(at)...)
	}
}

// next is when the twin does something.
func (w *twin) next() (time.Duration, bool) {
	switch {
	case w.stepping:
		return w.stepEnd, true
	case len(w.script) > 0:
		return max(w.now, w.script[0].arrived), true
	}
	return 0, false
}

// act does what is due at the time that next said.
func (w *twin) act(at time.Duration) (all []happened) {
	w.now = at
	enter := at
	if w.stepping {
		w.stepping = false
		all = w.endStep()
		if w.options.AsyncScheduling && len(w.waiting)+len(w.running) > 0 {
			enter = w.began
		}
	}
	for len(w.script) > 0 && w.script[0].arrived <= enter {
		w.waiting = append(w.waiting, w.script[0])
		w.script = w.script[1:]
	}
	if len(w.waiting)+len(w.running) > 0 {
		w.began, w.stepping = at, true
		w.stepEnd = at + w.step()
	}
	return all
}

func (w *twin) endStep() (all []happened) {
	w.running = slices.DeleteFunc(w.running, func(s *twinSeq) bool {
		s.done += s.chunk
		scheduled, more := s.chunk > 0, s.more
		if s.chunk, s.more = 0, 0; s.cancelled {
			w.release(s)
			return true
		}
		if !scheduled || s.done < s.prompt+s.made {
			return false
		}
		s.made += 1 + more
		all = append(all, happened{s.id, fleet.Token, w.now, s.made, s.cached})
		if s.made < s.output {
			return false
		}
		all = append(all, happened{s.id, fleet.Finished, w.now, s.made, s.cached})
		w.release(s)
		if w.options.AsyncScheduling {
			w.late = append(w.late, s.prompt+s.made)
		}
		return true
	})
	return all
}

// cancel ends a request wherever it is.
func (w *twin) cancel(id uint64) {
	is := func(s *twinSeq) bool { return s.id == id }
	w.script = slices.DeleteFunc(w.script, is)
	w.waiting = slices.DeleteFunc(w.waiting, is)
	for _, s := range w.running {
		s.cancelled = s.cancelled || is(s)
	}
}
