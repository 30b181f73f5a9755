package fleet

import (
	"fmt"
	"slices"
)

// Check returns the first broken invariant, by its number in the package
// comment. It takes time proportional to the engine's size: it is for tests.
func (e *Engine) Check() error {
	for _, c := range []struct {
		number int
		check  func() error
	}{
		{1, e.checkPlaces}, {2, e.checkReferences}, {3, e.checkQueues}, {4, e.checkHoldings}, {5, e.checkIndex},
		{6, e.checkClock}, {7, e.checkBusy}, {8, e.checkStep}, {9, e.checkProgress}, {10, e.checkOrder},
	} {
		if err := c.check(); err != nil {
			return fmt.Errorf("invariant %d: %w", c.number, err)
		}
	}
	return nil
}

func (e *Engine) queued() []*sequence {
	return slices.Concat(e.waiting.all(), e.arriving.all())
}

func (e *Engine) checkPlaces() error {
	here := slices.Concat(e.running, e.queued())
	seen := make(map[uint64]bool, len(here))
	for _, s := range here {
		if seen[s.ID] || e.live[s.ID] != s {
			return fmt.Errorf("request %d is in two places or not live", s.ID)
		}
		seen[s.ID] = true
	}
	if len(here) != len(e.live) {
		return fmt.Errorf("%d requests are live, %d are somewhere", len(e.live), len(here))
	}
	if ended := e.counts.Finished + e.counts.Cancelled; e.submitted != uint64(ended)+uint64(len(here)) {
		return fmt.Errorf("%d submitted, %d ended, %d live", e.submitted, ended, len(here))
	}
	return nil
}

func (e *Engine) checkReferences() error {
	refs := make([]int32, e.cache.total())
	for _, s := range e.running {
		for _, b := range s.blocks {
			refs[b]++
		}
	}
	free := make([]bool, len(refs))
	head, n := int32(len(refs)), 0
	for i := e.cache.blocks[head].next; i != head; i = e.cache.blocks[i].next {
		if free[i] {
			return fmt.Errorf("block %d is on the free list twice", i)
		}
		free[i] = true
		n++
	}
	if n != e.cache.free {
		return fmt.Errorf("%d blocks are on the free list, %d are counted", n, e.cache.free)
	}
	sum := 0
	for i, want := range refs {
		sum += int(want)
		if got := e.cache.blocks[i].refs; got != want || free[i] != (want == 0) {
			return fmt.Errorf("block %d has %d references for %d holders, free is %t", i, got, want, free[i])
		}
	}
	if sum != e.cache.refs {
		return fmt.Errorf("%d references to blocks, %d are counted", sum, e.cache.refs)
	}
	return nil
}

func (e *Engine) checkQueues() error {
	for _, s := range e.queued() {
		if len(s.blocks) > 0 || s.computed > 0 || s.chunk > 0 || s.running {
			return fmt.Errorf("request %d waits with %d blocks and %d tokens computed", s.ID, len(s.blocks), s.computed)
		}
	}
	return nil
}

func (e *Engine) checkHoldings() error {
	for _, s := range e.running {
		if want := e.blocksFor(s.computed + s.chunk); len(s.blocks) != want || !s.running {
			return fmt.Errorf("request %d holds %d blocks, needs %d", s.ID, len(s.blocks), want)
		}
		sorted := slices.Sorted(slices.Values(s.blocks))
		if len(slices.Compact(sorted)) != len(s.blocks) {
			return fmt.Errorf("request %d holds a block twice", s.ID)
		}
	}
	return nil
}

func (e *Engine) checkIndex() error {
	hashed := 0
	for i := range e.cache.total() {
		b := e.cache.blocks[i]
		if !b.hashed {
			continue
		}
		hashed++
		if e.cache.index.find(e.cache.blocks, b.hash) != int32(i) {
			return fmt.Errorf("block %d carries a hash that the index maps elsewhere", i)
		}
	}
	if hashed != e.cache.index.count {
		return fmt.Errorf("%d blocks carry a hash, the index has %d", hashed, e.cache.index.count)
	}
	return nil
}

func (e *Engine) checkClock() error {
	if at, ok := e.NextEvent(); ok && at < e.clock {
		return fmt.Errorf("next event at %v, clock at %v", at, e.clock)
	}
	return nil
}

func (e *Engine) checkBusy() error {
	if _, ok := e.NextEvent(); !ok && len(e.live) > 0 {
		return fmt.Errorf("%d requests live and no next event", len(e.live))
	}
	if !e.stepping && (e.waiting.len() > 0 || len(e.running) > 0) {
		return fmt.Errorf("%d requests wait and %d run without a step", e.waiting.len(), len(e.running))
	}
	return nil
}

func (e *Engine) checkStep() error {
	if len(e.running) > e.profile.MaxNumSeqs {
		return fmt.Errorf("%d sequences run, at most %d may", len(e.running), e.profile.MaxNumSeqs)
	}
	scheduled := 0
	for _, s := range e.running {
		scheduled += s.chunk
	}
	if e.stepping && (scheduled < 1 || scheduled > e.profile.MaxBatchedTokens || scheduled != e.stepTokens) {
		return fmt.Errorf("the step computes %d tokens of a budget of %d, %d recorded", scheduled, e.profile.MaxBatchedTokens, e.stepTokens)
	}
	return nil
}

func (e *Engine) checkProgress() error {
	for _, s := range slices.Concat(e.running, e.queued()) {
		if s.computed+s.chunk > s.tokens()+s.drafted || s.generated+s.drafted >= s.output {
			return fmt.Errorf("request %d: %d computed and %d scheduled of %d tokens, %d generated of %d",
				s.ID, s.computed, s.chunk, s.tokens(), s.generated, s.output)
		}
	}
	return nil
}

func (e *Engine) checkOrder() error {
	line := slices.Concat(e.running, e.waiting.all())
	for i := 1; i < len(line); i++ {
		if line[i-1].order >= line[i].order {
			return fmt.Errorf("request %d stands behind %d, which arrived later", line[i].ID, line[i-1].ID)
		}
	}
	return nil
}
