package ledger

import (
	"math"
	"math/bits"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// account is the books of one incarnation.
type account struct {
	life    life
	leaving bool // forgotten, but entries are open

	requests        int64 // in flight
	foreign         int   // of those, sent by other routers
	waiting         int64 // of those, without a first token
	prefill         int64 // uncached tokens of the waiting
	work            int64 // sum of entry.work of the waiting
	waitingContext  int64 // prompt tokens of the waiting
	waitingOutput   int64 // tokens they are expected to generate
	waitingStay     int64 // sum of entry.stay of the waiting
	decodingContext int64 // prompt and generated tokens of the rest
	generated       int64 // generated tokens of all

	remaining        [feature.RemainingBuckets]int64
	remainingContext [feature.RemainingBuckets]int64

	prompts sharing

	first, last int32     // the waiting, oldest first
	lastFirst   time.Time // when the last first token was seen
	nextMove    time.Time // not later than the earliest MoveAt of the waiting; zero: none

	sent        dispatches
	rate        rate // of uncached tokens
	contextRate rate // of half of entry.work
}

func newAccount(of life) *account {
	return &account{life: of, first: none, last: none}
}

// count adds e to the histograms, or takes it out when sign is -1. It must be
// taken out before streamed changes.
func (a *account) count(e *entry, sign int64) {
	b := bucket(e.toGo())
	a.remaining[b] += sign
	a.remainingContext[b] += sign * e.context()
}

// context is the tokens e has, or will have after prefill, in the KV cache.
func (e *entry) context() int64 { return e.prompt + e.streamed }

// toGo is the output e still has before it. The 0.3 x streamed keeps a
// request that outran its estimate from looking nearly done.
func (e *entry) toGo() int64 {
	return max(e.expected-e.streamed, 3*e.streamed/10, 1)
}

// work is 2 x U*(P-U/2): twice the tokens times the context they attend to,
// so that it is whole. The prompt counts as no shorter than its uncached part.
func (e *entry) work() int64 {
	return e.uncached * (2*max(e.prompt, e.uncached) - e.uncached)
}

// stay is what e will take of the KV cache, in tokens times steps: its prompt
// and half of its output for as many steps as it has tokens to generate.
func (e *entry) stay() int64 { return e.expected * (e.prompt + e.expected/2) }

// bucket is floor(log2(tokens)), at most the last bucket.
func bucket(tokens int64) int {
	return min(bits.Len64(uint64(tokens))-1, feature.RemainingBuckets-1)
}

// read copies the books out.
func (l *Ledger) read(a *account, now, scrapedAt time.Time) feature.Ledger {
	requests, tokens, prompts := a.sent.since(scrapedAt)
	s := feature.Ledger{
		Requests:       float64(a.requests),
		PrefillTokens:  float64(a.prefill),
		Decoding:       float64(a.requests - a.waiting),
		ContextTokens:  float64(a.decodingContext),
		SinceScrape:    float64(requests),
		SinceScrapeTok: float64(tokens),
		PrefillContext: float64(a.work) / 2,
		WaitingContext: float64(a.waitingContext),
		WaitingOutput:  float64(a.waitingOutput),
		WaitingStay:    float64(a.waitingStay),
		SharedContext:  float64(a.prompts.shared),

		SinceScrapeContext: float64(prompts),
		PrefillRate:        a.rate.at(now),

		PrefillContextRate: a.contextRate.at(now),
		GeneratedTokens:    float64(a.generated),
	}
	if a.first != none {
		head := &l.entries[a.first]
		since := head.dispatched
		if a.lastFirst.After(since) {
			since = a.lastFirst
		}
		s.HeadTokens = float64(head.uncached)
		s.HeadContext = float64(head.work()) / 2
		s.HeadElapsed = max(0, feature.SecondsOf(now.Sub(since)))
	}
	if a.requests > 0 {
		for i := range s.Remaining {
			s.Remaining[i] = float64(a.remaining[i])
			s.RemainingContext[i] = float64(a.remainingContext[i])
		}
	}
	return s
}

// rateWindow is the time constant of PrefillRate and PrefillContextRate.
const rateWindow = 30 * time.Second

// rate is an exponentially weighted sum.
type rate struct {
	sum     float64
	updated time.Time
}

// add counts an amount. One that is heard of late has faded since.
func (r *rate) add(now time.Time, amount float64) {
	if late := r.updated.Sub(now); late > 0 {
		r.sum += amount * fade(late)
		return
	}
	r.sum = r.sum*r.decay(now) + amount
	r.updated = now
}

// at is the sum per second. It is low until about one window has passed.
func (r *rate) at(now time.Time) float64 {
	return r.sum * r.decay(now) / rateWindow.Seconds()
}

func (r *rate) decay(now time.Time) float64 {
	if r.sum == 0 || !now.After(r.updated) {
		return 1
	}
	return fade(now.Sub(r.updated))
}

func fade(passed time.Duration) float64 { return math.Exp(-float64(passed) / float64(rateWindow)) }
