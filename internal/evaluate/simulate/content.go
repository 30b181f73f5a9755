package simulate

import (
	"fmt"
	"math"
	"slices"
	"sort"

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
	l.per = l.perBlock()
	parts := l.partings()
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
			known, all := q.digest.Known, l.requests[j].digest.Blocks
			switch next := k + 1; {
			case next == len(q.digest.Marks):
			case q.digest.Marks[next].Depth == known && all >= known:
				q.common = int32(known)
			case known < m.Depth && all < q.digest.Marks[next].Depth:
				// It had forgotten where; all marks of the other are here.
				q.common = int32(all)
			default:
				q.common = int32(min(all, parts.between(m, q.digest.Marks[next].Depth)))
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
	l.converse(l.per)
}

// parting is where prompts that are alike up to a mark part before the next one, as
// most say (the majority vote of Boyer and Moore).
type parting struct{ at, votes int }

func (p parting) told(at int) parting {
	switch {
	case p.votes == 0:
		return parting{at, 1}
	case p.at == at:
		p.votes++
	default:
		p.votes--
	}
	return p
}

// partings are those of marks, and of all marks of a depth: texts that many prompts
// begin with tend to be alike in length too.
type partings struct {
	after map[prefix.Mark]parting
	depth map[int]parting
}

// partings finds where prompts part between marks. Where the index knew so much of
// one and no more, or an endpoint held so much or was believed to, another parts
// from it: what others still use is not evicted. Eviction leaves other ends too, but
// not in one place.
func (l *log) partings() partings {
	p := partings{map[prefix.Mark]parting{}, map[int]parting{}}
	for i := range l.requests {
		q := &l.requests[i]
		marks := q.digest.Marks
		vote := func(at int) {
			// The last mark before it, or that which others have there as well.
			k := sort.Search(len(marks), func(k int) bool { return marks[k].Depth > at || marks[k].Depth == at && !onGrid(at) }) - 1
			if k < 0 || at >= q.digest.Blocks {
				return
			}
			p.after[marks[k]] = p.after[marks[k]].told(at)
			p.depth[marks[k].Depth] = p.depth[marks[k].Depth].told(at)
		}
		vote(q.digest.Known)
		if q.cached > 0 {
			vote(int(q.cached / l.per))
		}
		for _, w := range q.warm {
			vote(int(math.Round(float64(w.tokens) / l.per)))
		}
	}
	return p
}

// between is where a prompt parts from others between two of its marks that stand
// at these; right after the first of them where most say so, or nobody tells.
func (p *partings) between(m prefix.Mark, next int) int {
	for _, of := range []parting{p.after[m], p.depth[m.Depth]} {
		if of.votes > 0 && of.at < next {
			return of.at
		}
	}
	return m.Depth
}

// onGrid reports whether digests have a mark at a depth whatever an index knew: at
// 1, 2, 3, 4, 6, 8, 12 and so on.
func onGrid(depth int) bool {
	return depth > 0 && (depth&(depth-1) == 0 || depth%3 == 0 && depth/3&(depth/3-1) == 0)
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

// unison is how much earlier than its end an answer may have been gone on from, in
// seconds: both are told by clocks that round.
const unison = 0.01

// converse finds which request goes on from which answer: its prompt begins with
// all of the other's, is longer by the answer, and came after it.
func (l *log) converse(per float64) {
	kept := l.answersKept(per)
	for i := range l.requests {
		q := &l.requests[i]
		if q.parent < 0 {
			continue
		}
		q.shared = int32(min(float64(q.prompt), float64(q.common)*per) / blockTokens)
		p := &l.requests[q.parent]
		whole := int(q.common) == p.digest.Blocks
		if whole && p.next < 0 && q.after(p) && !(kept && q.parted(p, per)) {
			p.next, q.goesOn = int32(i), true
			if kept {
				q.shared = max(q.shared, int32((p.prompt+p.output)/blockTokens))
			}
		}
		q.origin = l.originOf(q)
	}
}

// originOf is who brought the last of the blocks that a request shares with its
// parent, or some before them. Parents that only repeat them are passed over: of
// prompts that all begin alike there are as many as there are requests.
func (l *log) originOf(q *request) int32 {
	at := q.parent
	for l.requests[at].parent >= 0 && l.requests[at].shared >= q.shared {
		at = l.requests[at].origin
	}
	return at
}

// after reports whether q may go on from the answer to p.
func (q *request) after(p *request) bool {
	return p.ok && q.at >= p.ended-unison && q.prompt >= p.prompt+p.output
}

// answersKept reports whether prompts that go on find the answer before them in the
// cache, where engines say what they found. They don't where clients send it back
// otherwise than it was generated, without its reasoning or with another text.
func (l *log) answersKept(per float64) bool {
	kept, parted := 0, 0
	for i := range l.requests {
		q := &l.requests[i]
		if q.parent < 0 {
			continue
		}
		p := &l.requests[q.parent]
		if int(q.common) != p.digest.Blocks || !q.after(p) || q.endpoint != p.endpoint || p.output < 2*blockTokens {
			continue
		}
		switch {
		case q.cached >= float64(p.prompt+p.output)-1.5*blockTokens:
			kept++
		case q.cached >= float64(q.common)*per-1.5*blockTokens: // it had not been evicted
			parted++
		}
	}
	return kept >= parted
}

// parted reports whether the engine said that it had the prompt before q's but not
// the answer to it.
func (q *request) parted(p *request, per float64) bool {
	const slack = 128 // tokens: blocks of engines, and estimates of prompts
	return q.endpoint == p.endpoint && q.cached >= float64(q.common)*per-slack && q.cached < float64(p.prompt+p.output)-slack
}

// ids appends the names of the first n blocks of what request r read and wrote. What
// was new in the log has another name in a copy of it.
func (l *log) ids(dst []uint64, r, n int, copied bool) []uint64 {
	at := len(dst)
	dst = slices.Grow(dst, n)[:at+n]
	for n > 0 {
		q := &l.requests[r]
		from := 0
		if q.parent >= 0 {
			from = min(n, int(q.shared))
		}
		own, other := splitmix.Mix(uint64(r)+1), uint64(0)
		if copied {
			other = splitmix.Mix(uint64(r)+1, 1)
		}
		for i := from; i < n; i++ {
			dst[at+i] = own + uint64(i)
			if copied && i >= int(q.old) {
				dst[at+i] = other + uint64(i)
			}
		}
		n, r = from, int(q.origin)
	}
	return dst
}

// chain appends the hashes of the blocks of those names.
func chain(dst, ids []uint64) []uint64 {
	h := uint64(0)
	for _, id := range ids {
		h = fleet.ExtendChain(h, id)
		dst = append(dst, h)
	}
	return dst
}

// held is a prompt that an endpoint's cache held before the log begins.
type held struct {
	request int
	blocks  int // of it
}

// remember finds what each endpoint held before the log begins: what its router
// believed to be there and no logged request had brought. What was needed first
// was used last, and stands last.
func (l *log) remember() {
	index := prefix.New(prefix.Config{BlockBytes: blockTokens, TokensPerByte: 1, CapacityTokens: math.MaxInt32})
	for range l.endpoints {
		index.Slot(fmt.Sprint("endpoint ", index.Slots()))
	}
	l.holds = make([][]held, len(l.endpoints))
	matches := make([]int32, len(l.endpoints))
	var ids, hashes []uint64
	for i := range l.requests {
		q := &l.requests[i]
		now := l.from.Add(seconds(q.at))
		ids = l.ids(ids[:0], i, (q.prompt+q.output)/blockTokens, false)
		hashes = chain(hashes[:0], ids)
		prompt := hashes[:q.prompt/blockTokens]
		if len(prompt) > 0 && len(q.warm) > 0 {
			index.Match(prompt, matches)
		}
		for _, w := range q.warm {
			n := min(len(prompt), int(w.tokens)/blockTokens)
			if n <= int(matches[w.endpoint]) {
				continue
			}
			if q.parent < 0 || n > int(q.shared) {
				q.old = max(q.old, int32(n))
			}
			l.holds[w.endpoint] = append(l.holds[w.endpoint], held{i, n})
			index.Insert(int(w.endpoint), prompt[:n], now)
		}
		if q.endpoint >= 0 && len(hashes) > 0 {
			index.Insert(q.endpoint, hashes, now)
		}
		q.warm = nil
	}
	for e := range l.holds {
		slices.Reverse(l.holds[e])
	}
}
