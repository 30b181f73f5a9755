package route

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/ledger"
)

// Ticket is one decided request on its way. One goroutine follows it; End must
// be called, and only its first call counts.
type Ticket struct {
	router    *Router
	llm       *llm
	id        feature.ID
	decidedAt time.Time
	recorded  bool // the decision reached the recorder
	policy    string
	reason    string
	query     Query
	prompt    float64       // tokens, as estimated
	wait      time.Duration // until a request that does not stream is taken to decode; 0 for one that streams
	others    options       // where it might have gone; none once it can't
	chain     []uint64      // of the prompt

	// Of the endpoint that serves; Retry changes them, under router.mu.
	endpoint  *endpoint
	url       string
	handle    ledger.Handle
	entry     ledger.Entry
	corrected feature.Forecast
	plain     feature.Forecast // before online correction
	load      float64          // of the endpoint before it, as corrections count
	bundle    int64            // behind them
	attempt   int              // 1, and one more after each move
	work      float64          // seconds of prefill by the step model
	believed  belief
	known     int       // blocks of the prompt that the index knew there
	claimed   int       // blocks that it knew before this request claimed the rest
	follows   float64   // tokens of an answer that may follow them
	reported  bool      // the pool knows that it failed here
	overdue   bool      // the p90 has been told that it missed
	late      bool      // and the judge that it is late
	sentAt    time.Time // zero before it was handed over

	first   bool
	ended   bool
	pending int       // tokens not yet told the ledger
	told    time.Time // when it was told last

	// For other routers, under router.mu.
	number    uint64 // of its present charge
	chargedAt time.Time
	generated int // tokens that the ledger was told of
	shown     int // and the others

	events atomic.Int64    // of the stream that carried generated tokens
	last   atomic.Int64    // when the last of them came, in Unix nanoseconds
	mark   correction.Mark // of the last tick; guarded by router.mu
	once   sync.Once
}

const (
	ledgerTokens   = 16                     // tell the ledger after so many tokens
	ledgerInterval = 200 * time.Millisecond // or after so long
)

// ID names the decision.
func (t *Ticket) ID() feature.ID { return t.id }

// Endpoint is the id of the endpoint that serves.
func (t *Ticket) Endpoint() string { return t.endpoint.id }

// URL is the endpoint's base URL.
func (t *Ticket) URL() string { return t.url }

// Policy is the policy that decided.
func (t *Ticket) Policy() string { return t.policy }

// Header is the short form of the decision: "<id>; <reason>".
func (t *Ticket) Header() string { return header(t.id, t.reason) }

func header(id feature.ID, reason string) string { return id.String() + "; " + reason }

// charge puts the ticket on its endpoint, which is believed to hold its prompt
// from now on. Called under router.mu.
func (t *Ticket) charge(now time.Time) {
	if t.wait > 0 {
		t.entry.MoveAt = now.Add(t.wait)
	}
	e := t.endpoint
	entry := t.entry
	entry.Chain = t.chain
	t.handle = t.router.ledger.Charge(e.id, e.incarnation, entry, now)
	e.touch()
	t.llm.demand.Add(now, float64(t.entry.UncachedTokens))
	t.router.index.Insert(e.slot, t.chain, now)
	e.live[t] = struct{}{}
	e.silent[t] = struct{}{}
	e.chosen++
	t.tellCharged(now)
}

// settle takes the ticket off its endpoint. Called under router.mu.
func (t *Ticket) settle() {
	t.router.ledger.Settle(t.handle)
	t.endpoint.touch()
	delete(t.endpoint.live, t)
	delete(t.endpoint.silent, t)
	t.tellSettled()
}

// Sent says that the request is being handed to the endpoint: its dispatch. A
// retry calls it again.
func (t *Ticket) Sent(now time.Time) { t.sentAt = now }

// FirstToken says that the first generated token arrived.
func (t *Ticket) FirstToken(now time.Time) {
	if t.first || t.ended {
		return
	}
	t.first, t.others = true, options{}
	t.last.Store(now.UnixNano())
	t.events.Store(1)
	t.told = now
	r := t.router
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ledger.FirstToken(t.handle, now)
	t.endpoint.touch()
	delete(t.endpoint.silent, t)
	t.endpoint.clock.Prefilled(now, t.work)
	t.mark.Begin(now)
	t.generated = 1
	t.tellGenerated(now)
	if t.query.Streaming {
		t.judge(now, feature.SecondsOf(now.Sub(t.dispatched())), feature.Seconds(feature.Unknown), 0)
	}
}

// Tokens says that n more generated tokens arrived, each in an event of its
// own.
func (t *Ticket) Tokens(n int, now time.Time) { t.Progress(n, n, now) }

// Progress says that more generated tokens arrived, in that many events of the
// stream: an engine that decodes speculatively puts several into one.
func (t *Ticket) Progress(tokens, events int, now time.Time) {
	if tokens <= 0 && events <= 0 || t.ended {
		return
	}
	if !t.first {
		t.FirstToken(now)
		tokens--
		events--
	}
	t.last.Store(now.UnixNano())
	t.events.Add(int64(max(0, events)))
	t.pending += max(0, tokens)
	if t.pending < ledgerTokens && now.Sub(t.told) < ledgerInterval {
		return
	}
	t.router.mu.Lock()
	t.router.ledger.Tokens(t.handle, t.pending, now)
	t.generated += t.pending
	t.endpoint.touch()
	t.router.mu.Unlock()
	t.pending, t.told = 0, now
}

// progress is how many events came and when the last one did.
func (t *Ticket) progress() (int64, time.Time) {
	return t.events.Load(), time.Unix(0, t.last.Load())
}
