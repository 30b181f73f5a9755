package simulate

import (
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/splitmix"
	"github.com/spillway-llm/spillway/router/prefix"
)

// blockTokens is the block of the simulated caches.
const blockTokens = fleet.DefaultBlockTokens

// begin finds for every request the one before it that its prompt begins like,
// and how much of it: marks in common tell it to a depth of the grid, and what the
// router's index knew tells the rest.
func (l *log) begin() {
	latest := map[prefix.Mark]int32{} // the last prompt that has it
	for i := range l.requests {
		q := &l.requests[i]
		for k, m := range slices.Backward(q.digest.Marks) {
			j, ok := latest[m]
			if !ok {
				continue
			}
			q.parent, q.common = j, int32(m.Depth)
			// Before the next mark they part, and the index knew where.
			if known := q.digest.Known; k+1 < len(q.digest.Marks) && q.digest.Marks[k+1].Depth == known && l.requests[j].digest.Blocks >= known {
				q.common = int32(known)
			}
			break
		}
		for _, m := range q.digest.Marks {
			latest[m] = int32(i)
		}
	}
	for i := range l.requests {
		l.requests[i].digest.Marks = nil
	}
	l.converse(l.perBlock())
}

// perBlock is how many tokens a block of the digests stands for.
func (l *log) perBlock() float64 {
	var each []float64
	for i := range l.requests {
		if q := &l.requests[i]; q.digest.Blocks >= 8 {
			each = append(each, float64(q.prompt)/(float64(q.digest.Blocks)+0.5))
		}
	}
	if len(each) == 0 {
		return blockTokens
	}
	slices.Sort(each)
	per := each[len(each)/2]
	if math.Abs(per/blockTokens-1) < 0.05 {
		return blockTokens
	}
	return per
}

// converse finds which request goes on from which answer: its prompt begins with
// all of the other's, is longer by the answer, and came after it.
func (l *log) converse(per float64) {
	for i := range l.requests {
		q := &l.requests[i]
		if q.parent < 0 {
			continue
		}
		q.shared = int32(min(float64(q.prompt), float64(q.common)*per) / blockTokens)
		p := &l.requests[q.parent]
		whole := int(q.common) == p.digest.Blocks
		if !whole || p.next >= 0 || !p.ok || !(q.at >= p.ended) || q.prompt < p.prompt+p.output || q.parted(p, per) {
			continue
		}
		p.next, q.goesOn = int32(i), true
		q.shared = max(q.shared, int32((p.prompt+p.output)/blockTokens))
	}
}

// parted reports whether the engine said that it had the prompt before q's but not
// the answer to it.
func (q *request) parted(p *request, per float64) bool {
	const slack = 128 // tokens: blocks of engines, and estimates of prompts
	return q.endpoint == p.endpoint && q.cached >= float64(q.common)*per-slack && q.cached < float64(p.prompt+p.output)-slack
}

// ids appends the names of the first n blocks of what request r read and wrote.
func (l *log) ids(dst []uint64, r, n int) []uint64 {
	at := len(dst)
	dst = slices.Grow(dst, n)[:at+n]
	for n > 0 {
		q := &l.requests[r]
		from := 0
		if q.parent >= 0 {
			from = min(n, int(q.shared))
		}
		own := splitmix.Mix(uint64(r) + 1)
		for i := from; i < n; i++ {
			dst[at+i] = own + uint64(i)
		}
		n, r = from, int(q.parent)
	}
	return dst
}

// warm is a prompt that a cache held before the log begins.
type warm struct {
	request int
	blocks  int // of it
}

// held are the prompts that must have been read before the log begins, for the
// router knew of them and no logged prompt begins so: those that are needed last
// first, as if they had been used longest ago.
func (l *log) held(per float64) (all []warm) {
	for i := range l.requests {
		q := &l.requests[i]
		if q.parent >= 0 && int(q.common) >= q.digest.Known {
			continue
		}
		if n := int(float64(q.digest.Known) * per / blockTokens); n > int(q.shared) && n > 0 {
			all = append(all, warm{i, min(n, q.prompt/blockTokens)})
		}
	}
	slices.Reverse(all)
	return all
}
