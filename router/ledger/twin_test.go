package ledger_test

import (
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/ledger"
)

// twin is the ledger written the obvious way: it keeps every entry and every
// dispatch and adds them up when asked.
type twin struct {
	lives map[twinLife]*twinBooks
}

type twinLife struct {
	endpoint    string
	incarnation uint64
}

type twinBooks struct {
	entries   []*twinEntry // in flight, oldest first
	sent      []twinSent
	lastFirst time.Time
	leaving   bool
}

type twinSent struct {
	at     time.Time
	tokens float64
	work   float64
	prompt float64
}

type twinEntry struct {
	ledger.Entry
	of       twinLife
	at       time.Time
	decoding bool
	streamed float64
	settled  bool
	client   int // whose request it is; the ledger does not know
}

func newTwin() *twin { return &twin{lives: map[twinLife]*twinBooks{}} }

func (w *twin) charge(endpoint string, incarnation uint64, e ledger.Entry, now time.Time) *twinEntry {
	of := twinLife{endpoint, incarnation}
	b := w.lives[of]
	if b == nil {
		b = &twinBooks{}
		w.lives[of] = b
	}
	b.leaving = false
	n := &twinEntry{Entry: e, of: of, at: now}
	b.entries = append(b.entries, n)
	p, u := float64(e.PromptTokens), float64(e.UncachedTokens)
	b.sent = append(b.sent, twinSent{now, u, u * (max(p, u) - u/2), p})
	return n
}

func (w *twin) first(e *twinEntry, now time.Time) bool {
	if e.settled || e.decoding {
		return false
	}
	e.decoding = true
	if b := w.lives[e.of]; now.After(b.lastFirst) {
		b.lastFirst = now
	}
	return true
}

func (w *twin) tokens(e *twinEntry, n int, now time.Time) bool {
	if e.settled {
		return false
	}
	w.first(e, now)
	e.streamed += float64(n)
	return true
}

func (w *twin) settle(e *twinEntry) bool {
	if e.settled {
		return false
	}
	e.settled = true
	b := w.lives[e.of]
	for i, x := range b.entries {
		if x == e {
			b.entries = append(b.entries[:i], b.entries[i+1:]...)
			break
		}
	}
	if len(b.entries) == 0 && b.leaving {
		delete(w.lives, e.of)
	}
	return true
}

func (w *twin) forget(endpoint string, incarnation uint64) {
	of := twinLife{endpoint, incarnation}
	switch b := w.lives[of]; {
	case b == nil:
	case len(b.entries) == 0:
		delete(w.lives, of)
	default:
		b.leaving = true
	}
}

// moveDue moves the entries of a life whose time has come.
func (w *twin) moveDue(b *twinBooks, now time.Time) {
	for _, e := range b.entries {
		if !e.MoveAt.IsZero() && !now.Before(e.MoveAt) {
			w.first(e, e.MoveAt)
		}
	}
}

// tidy drops the dispatches that a scrape has seen and that count for nothing in
// a rate, which forgets by half every 21 s.
func (w *twin) tidy(now, scrapedAt time.Time) {
	for _, b := range w.lives {
		old := 0
		for old < len(b.sent) && !b.sent[old].at.After(scrapedAt) && now.Sub(b.sent[old].at) > 15*time.Minute {
			old++
		}
		b.sent = b.sent[old:]
	}
}

func (w *twin) state(endpoint string, incarnation uint64, now, scrapedAt time.Time) feature.Ledger {
	var s feature.Ledger
	b := w.lives[twinLife{endpoint, incarnation}]
	if b == nil {
		return s
	}
	w.moveDue(b, now)
	for _, d := range b.sent {
		if d.at.After(scrapedAt) {
			s.SinceScrape++
			s.SinceScrapeTok += d.tokens
			s.SinceScrapeContext += d.prompt
		}
		keep := math.Exp(-now.Sub(d.at).Seconds()/30) / 30
		s.PrefillRate += d.tokens * keep
		s.PrefillContextRate += d.work * keep
	}
	head, seen := true, map[uint64]float64{}
	for _, e := range b.entries {
		s.SharedContext += shares(e, seen)
		p, u := float64(e.PromptTokens), float64(e.UncachedTokens)
		work := u * (max(p, u) - u/2)
		s.Requests++
		if e.decoding {
			s.Decoding++
			s.ContextTokens += p + e.streamed
		} else {
			s.PrefillTokens += u
			s.PrefillContext += work
			s.WaitingContext += p
			s.WaitingOutput += float64(e.ExpectedOutput)
			s.WaitingStay += float64(e.ExpectedOutput * (e.PromptTokens + e.ExpectedOutput/2))
			if head {
				head = false
				since := e.at
				if b.lastFirst.After(since) {
					since = b.lastFirst
				}
				s.HeadTokens, s.HeadContext = u, work
				s.HeadElapsed = feature.SecondsOf(now.Sub(since))
			}
		}
		s.GeneratedTokens += e.streamed
		toGo := max(float64(e.ExpectedOutput)-e.streamed, 0.3*e.streamed, 1)
		i := min(int(math.Floor(math.Log2(toGo)+1e-12)), feature.RemainingBuckets-1)
		s.Remaining[i]++
		s.RemainingContext[i] += p + e.streamed
	}
	return s
}

// shares is how many tokens of e those before it have too. All that is alike
// among prompts of a test has blocks of equal length.
func shares(e *twinEntry, seen map[uint64]float64) float64 {
	shared, from := 0.0, 0
	for at := range len(e.Chain) {
		power := 1
		for 2*power <= at+1 {
			power *= 2
		}
		if power >= 16 && (at+1)%(power/8) != 0 {
			continue // cuts lie at each eighth of a power of two
		}
		hash, stretch := e.Chain[at], float64((at+1-from)*twinBlock)
		from = at + 1
		if seen[hash] > 0 {
			shared += stretch
		}
		seen[hash] = stretch
	}
	return shared
}

// twinBlock is the tokens of a block of a prompt that has a chain.
const twinBlock = 64

// story is a prompt of so many blocks. Those of two texts begin alike; how far
// hangs on the texts.
func story(blocks, text int) []uint64 {
	chain := make([]uint64, blocks)
	for i := range chain {
		of := text
		if i < 5*(1+text%3) {
			of = text % 3
		}
		chain[i] = uint64(of)<<16 | uint64(i+1)
	}
	return chain
}
