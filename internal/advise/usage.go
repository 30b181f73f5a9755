package advise

import (
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
)

// Usage gathers the requests that a fleet served. Rows of a log and of a simulation
// are read alike. The zero value has none.
type Usage struct {
	rows  []took
	begun time.Time // the first row; later ones may be earlier
}

// took is one request, as its row tells.
type took struct {
	at             time.Duration // sent, since Usage.begun
	prompt, cached float64       // tokens
	output         float64       // tokens
	ttft, e2e      float64       // seconds; e2e is at least ttft
	running, kv    float64       // of its endpoint as it was sent, as that told; NaN: not known
}

// Columns of what a scrape told.
var columnRunning, columnKVUsed = feature.Index("running"), feature.Index("kv_used")

// Add reads a row. They may come in any order. Requests without a first token took
// nothing that is known. The row is not kept.
func (u *Usage) Add(r *feature.Row) {
	o, v := &r.Outcome, &r.Vector
	prompt, cached := float64(v[feature.ColumnPromptTokens]), o.CachedTokens
	if !(o.TTFT >= 0) || !(prompt >= 1) {
		return
	}
	if feature.IsUnknown(cached) { // the engine does not tell: as the router believed
		cached = float64(v[feature.ColumnCachedTokens])
	}
	if feature.IsUnknown(cached) {
		cached = 0
	}
	if len(u.rows) == 0 {
		u.begun = r.DecidedAt
	}
	t := took{
		at:     r.DecidedAt.Sub(u.begun), // below 0 where it was sent before the first row
		prompt: prompt, cached: min(max(cached, 0), prompt-1),
		ttft: float64(o.TTFT), e2e: float64(o.TTFT),
		running: float64(v[columnRunning]), kv: float64(v[columnKVUsed]),
	}
	if o.E2E > o.TTFT { // false where it is not known
		t.e2e = float64(o.E2E)
	}
	if o.OutputTokens > 0 {
		t.output = o.OutputTokens
	}
	u.rows = append(u.rows, t)
}

// use is what requests took of a fleet, by when: since the first one.
type use struct {
	endpoints float64
	parts     []part
	span      time.Duration // until the last one was sent
}

// part is what one request took.
type part struct {
	at, first, last time.Duration // sent, first token, end
	prefill         float64       // seconds of an endpoint
	decode          float64       // seconds of an endpoint, beside the steps that are taken anyway
	saved           float64       // seconds of prefill that its endpoint's cache saved
	slots, kv       float64       // shares of its endpoint's batch and cache; NaN: not known
}

// of is what the requests took of endpoints that are as the profile says.
func (u *Usage) of(p physics.Profile, endpoints int) *use {
	out := &use{endpoints: float64(endpoints), parts: make([]part, len(u.rows))}
	c := &p.Coefficients
	begins := time.Duration(0)
	for i := range u.rows {
		begins = min(begins, u.rows[i].at)
	}
	for i := range u.rows {
		t, x := &u.rows[i], &out.parts[i]
		x.at = t.at - begins
		x.first, x.last = x.at+seconds(t.ttft), x.at+seconds(t.e2e)
		x.prefill = float64(c.Work(t.prompt, t.prompt-t.cached))
		x.saved = float64(c.Work(t.prompt, t.prompt)) - x.prefill
		if t.output > 1 {
			x.decode = (t.output - 1) * (c.D + c.E*(t.prompt+t.output/2))
		}
		x.slots, x.kv = t.running/float64(p.MaxNumSeqs), t.kv
		out.span = max(out.span, x.at)
	}
	return out
}

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }
