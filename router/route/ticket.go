package route

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/ledger"
	"github.com/spillway-llm/spillway/router/pool"
)

// Ticket is one decided request on its way. One goroutine follows it; End must
// be called, and only its first call counts.
type Ticket struct {
	router    *Router
	llm       *llm
	snapshot  *pool.Snapshot
	id        feature.ID
	decidedAt time.Time
	policy    string
	reason    string
	query     Query
	others    []feature.Candidate // of the decision; shared with its row, never written

	// Of the endpoint that serves; a retry changes them. Guarded by router.mu
	// where the ticket is in endpoint.live.
	endpoint  *endpoint
	state     *pool.State
	handle    ledger.Handle
	entry     ledger.Entry
	class     string
	corrected feature.Forecast
	plain     feature.Forecast // before online correction
	attempt   int

	prompt, output, cached float64
	work                   float64 // seconds of prefill by the step model

	sentAt  time.Time
	first   bool
	pending int       // tokens not yet told the ledger
	told    time.Time // when it was told last

	count atomic.Int64 // generated tokens
	last  atomic.Int64 // when the last of them came, in Unix nanoseconds
	mark  mark         // of the last tick; guarded by router.mu
	once  sync.Once
}

// mark is how far a stream was at one tick.
type mark struct {
	tokens int64
	at     time.Time
}

const (
	ledgerTokens   = 16                     // tell the ledger after so many tokens
	ledgerInterval = 200 * time.Millisecond // or after so long
)

// ID names the decision.
func (t *Ticket) ID() feature.ID { return t.id }

// Endpoint is the id of the endpoint that serves.
func (t *Ticket) Endpoint() string { return t.state.ID }

// URL is the endpoint's base URL.
func (t *Ticket) URL() string { return t.state.URL }

// Policy is the policy that decided.
func (t *Ticket) Policy() string { return t.policy }

// Header is the short form of the decision: "<id>; <reason>".
func (t *Ticket) Header() string { return t.id.String() + "; " + t.reason }

// Sent says that the request is being handed to the endpoint: its dispatch. A
// retry calls it again.
func (t *Ticket) Sent(now time.Time) {
	t.sentAt = now
	t.attempt++
}

// FirstToken says that the first generated token arrived.
func (t *Ticket) FirstToken(now time.Time) {
	if t.first {
		return
	}
	t.first = true
	t.count.Store(1)
	t.last.Store(now.UnixNano())
	t.told = now
	r := t.router
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ledger.FirstToken(t.handle, now)
	t.endpoint.prefills = append(t.endpoint.prefills, prefill{at: now, work: t.work})
	t.mark = mark{tokens: 1, at: now}
}

// Tokens says that n more generated tokens arrived.
func (t *Ticket) Tokens(n int, now time.Time) {
	if n <= 0 {
		return
	}
	if !t.first {
		t.FirstToken(now)
		n--
	}
	t.count.Add(int64(n))
	t.last.Store(now.UnixNano())
	t.pending += n
	if t.pending < ledgerTokens && now.Sub(t.told) < ledgerInterval {
		return
	}
	t.router.mu.Lock()
	t.router.ledger.Tokens(t.handle, t.pending, now)
	t.router.mu.Unlock()
	t.pending, t.told = 0, now
}

// progress is how many tokens came and when the last one did.
func (t *Ticket) progress() (int64, time.Time) {
	return t.count.Load(), time.Unix(0, t.last.Load())
}

// Retry moves the request to the next best endpoint of the same decision after
// the first one failed before its first byte. It reports false when there is
// none or a retry was made before.
func (t *Ticket) Retry(why string) bool {
	r := t.router
	r.pool.ReportFailure(t.state.ID)
	if t.attempt > 1 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	next, other := t.nextBest()
	if next == nil {
		return false
	}
	r.ledger.Settle(t.handle)
	delete(t.endpoint.live, t)
	t.state, t.endpoint, t.class = next, r.endpoint(next), next.Class
	t.corrected, t.plain = other.Corrected, feature.NoForecast
	t.entry.UncachedTokens = t.entry.PromptTokens // what it holds was not asked
	t.cached = 0
	t.handle = r.ledger.Charge(next.ID, t.endpoint.incarnation, t.entry, now)
	t.endpoint.live[t] = struct{}{}
	t.endpoint.chosen++
	r.log.Debug("retrying on another endpoint", "decision", t.id, "endpoint", next.ID, "reason", why)
	return true
}

// nextBest is the cheapest other endpoint of the decision that the present
// pool still has in good standing.
func (t *Ticket) nextBest() (*pool.State, feature.Candidate) {
	var best *pool.State
	var found feature.Candidate
	cost := math.Inf(1)
	states := map[string]*pool.State{}
	snap := t.router.pool.Snapshot()
	for i := range snap.Endpoints {
		states[snap.Endpoints[i].ID] = &snap.Endpoints[i]
	}
	for _, c := range t.others {
		s := states[c.Endpoint]
		if s == nil || s.ID == t.state.ID || s.Draining {
			continue
		}
		its := c.Cost
		if its != its {
			its = math.MaxFloat64 / 4
		}
		if !s.Healthy {
			its = math.MaxFloat64 / 2
		}
		if its < cost {
			best, found, cost = s, c, its
		}
	}
	return best, found
}

// End settles the ticket and records what came of it. Only the first call
// counts.
func (t *Ticket) End(e End) {
	t.once.Do(func() { t.end(e) })
}

func (t *Ticket) end(e End) {
	now := time.Now()
	r := t.router
	served := e.Status == feature.OK
	if served {
		r.pool.ReportSuccess(t.state.ID)
	}
	r.mu.Lock()
	r.ledger.Settle(t.handle)
	delete(t.endpoint.live, t)
	if served {
		t.learn(e)
	}
	r.remember(t, e, now)
	r.mu.Unlock()
	r.metrics.ended.WithLabelValues(string(e.Status)).Inc()
	if t.decidedAt.IsZero() {
		return // it was never recorded
	}
	r.recorder.RecordOutcome(t.outcome(e, now))
}

// learn takes in what a served request says about lengths and forecasts.
func (t *Ticket) learn(e End) {
	prompt := t.prompt
	if e.PromptTokens > 0 {
		prompt = e.PromptTokens
		if t.query.Images == 0 && t.query.PromptTokens == 0 {
			t.llm.bytes.observe(e.PromptTokens, t.query.PromptBytes)
		}
	}
	t.llm.output.observe(prompt, e.OutputTokens)
	if t.plain.Known() {
		t.endpoint.offset.Observe(t.plain, e.TTFT, e.TPOT)
		t.llm.coverage.Observe(t.corrected, e.TTFT, e.TPOT)
	}
}

// outcome makes the row.
func (t *Ticket) outcome(e End, now time.Time) feature.Outcome {
	o := feature.Outcome{
		Decision:     t.id,
		DecidedAt:    t.decidedAt,
		Attempt:      max(1, t.attempt),
		Status:       e.Status,
		HTTPStatus:   e.HTTPStatus,
		TTFT:         e.TTFT,
		TPOT:         e.TPOT,
		E2E:          e.E2E,
		OutputTokens: e.OutputTokens,
		CachedTokens: e.CachedTokens,
		Endpoint:     t.state.ID,
		CensoredAt:   feature.Seconds(feature.Unknown),
		FinishedAt:   now.UTC().Truncate(time.Microsecond),
	}
	if feature.IsUnknown(e.TTFT) && t.query.Streaming && !t.sentAt.IsZero() {
		o.CensoredAt = feature.SecondsOf(now.Sub(t.sentAt))
	}
	if e.Status != feature.OK {
		o.E2E = feature.Seconds(feature.Unknown)
	}
	return o
}
