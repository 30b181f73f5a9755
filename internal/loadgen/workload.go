package loadgen

import (
	"container/heap"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/trace"
	"github.com/spillway-llm/spillway/internal/workload"
)

// Workload is a synthetic workload as requests with times, for a client that
// knows no sessions: a turn comes when the answer to the one before it is
// likely to have ended, whether it has or not.
type Workload struct {
	// Name is one of Workloads().
	Name string
	// Rate is the mean number of requests a second of the open loop, which is
	// Poisson by conversation. 0 means the workload's own: for b2b-saas the
	// published ladder of rates, which ends after 24 minutes; for the others
	// one that a handful of endpoints can serve.
	Rate float64
	// Seed makes the requests: equal seeds, equal requests.
	Seed uint64
}

// Workloads returns the names of the synthetic workloads.
func Workloads() []string { return workload.Names() }

// Items returns the workload's requests in order of time: without end, but for
// the ladder of b2b-saas.
func (w Workload) Items() (iter.Seq[trace.Item], error) {
	if w.Rate < 0 || math.IsNaN(w.Rate) || math.IsInf(w.Rate, 0) {
		return nil, fmt.Errorf("rate %g: expected 0 (the workload's own) or more", w.Rate)
	}
	spec, err := workload.Named(w.Name)
	if err != nil {
		return nil, err
	}
	spec.Duration = 0
	switch {
	case w.Rate > 0:
		return items(spec.Open(w.Seed, w.Rate).Sessions), nil
	case spec.Rate > 0:
		return items(spec.Open(w.Seed, spec.Rate).Sessions), nil
	}
	return items(spec.Climb(w.Seed).Sessions), nil
}

// A turn follows the one before after the answer's likely duration, for the
// open loop knows no other: two seconds and 25 ms a token, about what a loaded
// endpoint takes (published TPOT of a 32B model on two H100s: 16 to 38 ms).
const (
	likelyTTFT = 2 * time.Second
	likelyTPOT = 25 * time.Millisecond
)

// items puts the turns of all sessions in order of time. Those of sessions
// under way wait in a heap.
func items(sessions iter.Seq[workload.Session]) iter.Seq[trace.Item] {
	return func(yield func(trace.Item) bool) {
		var waiting turnHeap
		more := true
		until := func(at time.Duration) {
			for more && len(waiting) > 0 && waiting[0].at < at {
				more = yield(waiting[0].take())
				waiting.settle()
			}
		}
		for s := range sessions {
			until(s.At)
			if !more {
				return
			}
			heap.Push(&waiting, &talk{at: s.At, index: s.Index, turns: s.Turns})
		}
		until(math.MaxInt64)
	}
}

// talk is a session that has a turn to come.
type talk struct {
	at    time.Duration // of the next turn
	index int
	turns []workload.Turn // to come
}

// take returns the next turn as an item and moves on to the one after it.
func (t *talk) take() trace.Item {
	turn := t.turns[0]
	item := trace.Item{
		At: t.at, PromptTokens: turn.PromptTokens, OutputTokens: turn.OutputTokens,
		Blocks: turn.Blocks, BlockTokens: turn.BlockTokens,
	}
	if t.turns = t.turns[1:]; len(t.turns) > 0 {
		t.at += likelyTTFT + time.Duration(turn.OutputTokens)*likelyTPOT + t.turns[0].After
	}
	return item
}

// turnHeap has the session with the earliest turn on top.
type turnHeap []*talk

// settle restores the order after the top has changed.
func (h *turnHeap) settle() {
	if len((*h)[0].turns) == 0 {
		heap.Pop(h)
		return
	}
	heap.Fix(h, 0)
}

func (h turnHeap) Len() int { return len(h) }
func (h turnHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].index < h[j].index
}
func (h turnHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *turnHeap) Push(x any)   { *h = append(*h, x.(*talk)) }
func (h *turnHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return t
}
