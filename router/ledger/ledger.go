package ledger

import (
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// MaxTokens is the most tokens one number of an Entry counts for (2^22, far
// beyond any context window). More is counted as this; it keeps the sum of
// products of 2^18 such requests inside 64 bits.
const MaxTokens = 1 << 22

// Entry is one request as it is charged. Numbers below 0 count as 0, above
// MaxTokens as MaxTokens.
type Entry struct {
	PromptTokens   int // of the whole prompt
	UncachedTokens int // of the prompt, that this endpoint must prefill
	ExpectedOutput int // tokens expected to be generated

	// Chain is the hashes of the prompt's blocks, each over all before it; nil
	// where nothing is known of what prompts share. It is read during Charge
	// alone.
	Chain []uint64

	// MoveAt is when a request whose first token will not be seen (it does
	// not stream) is taken to have begun decoding: its dispatch plus its
	// forecast p90 TTFT. Zero for a request that streams.
	MoveAt time.Time

	// Foreign says that another router sent it: State counts it like any other,
	// Open and Own do not. See Mirror.
	Foreign bool
}

// Handle names one charged entry until it is settled. The zero Handle names
// none.
type Handle struct {
	slot       int32
	generation uint32
}

// life is one incarnation of one endpoint.
type life struct {
	endpoint    string
	incarnation uint64
}

// Ledger counts what is in flight. See the package comment for locking.
type Ledger struct {
	accounts map[life]*account
	entries  []entry // slots; those in use are linked into their account
	free     int32   // first free slot, linked through next; none when empty
	open     int     // of this router
	foreign  int     // of others
}

// entry is one slot.
type entry struct {
	account    *account // nil while the slot is free
	generation uint32   // raised on every use, so an old Handle misses

	prompt, uncached, expected, streamed int64

	marks []uint64 // stretches of the prompt in account.prompts; the memory is used again

	dispatched time.Time
	moveAt     time.Time
	waiting    bool  // no first token yet
	foreign    bool  // sent by another router
	prev, next int32 // among the waiting of the account, oldest first
}

// none ends a list of slots.
const none = int32(-1)

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{accounts: make(map[life]*account), free: none}
}

// Charge puts a request on an endpoint's incarnation at the moment it is
// decided, before it is sent. Slots are reused, so a ledger holds no more
// memory than its busiest moment needed.
func (l *Ledger) Charge(endpoint string, incarnation uint64, e Entry, now time.Time) Handle {
	key := life{endpoint, incarnation}
	a := l.accounts[key]
	if a == nil {
		a = newAccount(key)
		l.accounts[key] = a
	}
	a.leaving = false

	slot := l.take()
	n := &l.entries[slot]
	marks := n.marks
	*n = entry{
		account:    a,
		generation: n.generation + 1,
		prompt:     bounded(e.PromptTokens),
		uncached:   bounded(e.UncachedTokens),
		expected:   bounded(e.ExpectedOutput),
		dispatched: now,
		moveAt:     e.MoveAt,
		foreign:    e.Foreign,
	}
	if n.generation == 0 { // after 2^32 uses; 0 is the zero Handle's
		n.generation = 1
	}
	l.tally(n, +1)
	a.requests++
	a.count(n, +1)
	n.marks = a.prompts.hold(e.Chain, n.prompt, marks)
	l.startWaiting(slot)
	a.sent.add(now, n.uncached, n.prompt)
	a.rate.add(now, float64(n.uncached))
	a.contextRate.add(now, float64(n.work())/2)
	return Handle{slot, n.generation}
}

// FirstToken moves h from prefill to decode. It reports false, and changes
// nothing, when h is settled or already decoding.
func (l *Ledger) FirstToken(h Handle, now time.Time) bool {
	n := l.entry(h)
	if n == nil || !n.waiting {
		return false
	}
	l.stopWaiting(h.slot, now)
	return true
}

// Tokens counts n more generated tokens of h: its context grows and what
// remains shrinks. Where FirstToken was not called before, these are taken
// as the first. It reports false when h is settled; n below 1 changes
// nothing.
func (l *Ledger) Tokens(h Handle, n int, now time.Time) bool {
	e := l.entry(h)
	if e == nil {
		return false
	}
	if n < 1 {
		return true
	}
	if e.waiting {
		l.stopWaiting(h.slot, now)
	}
	a := e.account
	a.count(e, -1)
	a.decodingContext -= e.context()
	a.generated -= e.streamed
	e.streamed = min(e.streamed+bounded(n), MaxTokens)
	a.decodingContext += e.context()
	a.generated += e.streamed
	a.count(e, +1)
	return true
}

// Settle ends h, whatever the reason: done, cancelled, reset, failed. Only
// the first call counts; it reports true. The counters of another incarnation
// are never touched.
func (l *Ledger) Settle(h Handle) bool {
	e := l.entry(h)
	if e == nil {
		return false
	}
	a := e.account
	if e.waiting {
		l.unlink(h.slot)
	} else {
		a.decodingContext -= e.context()
	}
	a.count(e, -1)
	a.prompts.letGo(e.marks)
	a.generated -= e.streamed
	a.requests--
	if a.requests == 0 && a.leaving {
		delete(l.accounts, a.life)
	}
	l.tally(e, -1)
	e.account = nil
	e.next = l.free
	l.free = h.slot
	return true
}

// tally counts an entry for whoever sent it, or takes it out when sign is -1.
func (l *Ledger) tally(e *entry, sign int) {
	if e.foreign {
		l.foreign += sign
		e.account.foreign += sign
	} else {
		l.open += sign
	}
}

// Forget says that an incarnation is over, or that its endpoint left the
// pool. Its numbers go once its last open entry is settled; until then they
// stay, so an endpoint that comes back unchanged keeps what it works on.
// Charging it again takes the Forget back.
func (l *Ledger) Forget(endpoint string, incarnation uint64) {
	key := life{endpoint, incarnation}
	a := l.accounts[key]
	switch {
	case a == nil:
	case a.requests == 0:
		delete(l.accounts, key)
	default:
		a.leaving = true
	}
}

// Open is the number of entries in flight on all endpoints and incarnations,
// of this router alone.
func (l *Ledger) Open() int { return l.open }

// Foreign is the number of those of other routers.
func (l *Ledger) Foreign() int { return l.foreign }

// Own is how many of the requests in flight on an incarnation this router
// sent itself: those of State that are not foreign.
func (l *Ledger) Own(endpoint string, incarnation uint64) int {
	a := l.accounts[life{endpoint, incarnation}]
	if a == nil {
		return 0
	}
	return int(a.requests) - a.foreign
}

// State is what is in flight on one incarnation at now. scrapedAt is when its
// scraped numbers were read (zero: never), from which on SinceScrape counts
// requests sent; it should not go back from call to call. An incarnation that
// was never charged has zeros.
//
// Remaining counts every request in flight by max(expected - streamed,
// 0.3 x streamed, 1) tokens to go, and RemainingContext their prompt and
// generated tokens: the two sum to Requests and to ContextTokens +
// WaitingContext. The head is the oldest request without a first token; it is
// credited the time since its dispatch or since the endpoint's last first
// token, whichever is later.
func (l *Ledger) State(endpoint string, incarnation uint64, now, scrapedAt time.Time) feature.Ledger {
	a := l.accounts[life{endpoint, incarnation}]
	if a == nil {
		return feature.Ledger{}
	}
	l.moveDue(a, now)
	return l.read(a, now, scrapedAt)
}

// entry returns the open entry of h, or nil.
func (l *Ledger) entry(h Handle) *entry {
	if h.generation == 0 || int(h.slot) >= len(l.entries) {
		return nil
	}
	e := &l.entries[h.slot]
	if e.generation != h.generation || e.account == nil {
		return nil
	}
	return e
}

// take returns a free slot.
func (l *Ledger) take() int32 {
	if l.free == none {
		l.entries = append(l.entries, entry{})
		return int32(len(l.entries) - 1)
	}
	slot := l.free
	l.free = l.entries[slot].next
	return slot
}

func bounded(tokens int) int64 {
	return int64(min(max(tokens, 0), MaxTokens))
}
