package advise

import (
	"fmt"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
)

// Usage gathers, from the requests that a fleet served, what of the fleet they
// took. Rows of a log and of a simulation are read alike.
type Usage struct {
	profile   physics.Profile
	endpoints float64
	begun     bool
	from      time.Time // the first row; later ones may be earlier
	parts     []part
}

// part is what one request took.
type part struct {
	at      time.Duration // sent, since Usage.from
	first   time.Duration // its first token
	last    time.Duration // its end
	prefill float64       // seconds of an endpoint
	decode  float64       // seconds of an endpoint, beside the steps that are taken anyway
	slots   float64       // of the batch of its endpoint as it was sent, a share; NaN: not known
	kv      float64       // of the cache of its endpoint as it was sent, a share; NaN: not known
	saved   float64       // seconds of prefill that its endpoint's cache saved
}

// NewUsage is of endpoints engines that are as the profile says.
func NewUsage(p physics.Profile, endpoints int) (*Usage, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if endpoints < 1 {
		return nil, fmt.Errorf("%d endpoints: want at least 1", endpoints)
	}
	return &Usage{profile: p, endpoints: float64(endpoints)}, nil
}

// Columns of what a scrape told.
var columnRunning, columnKVUsed = feature.Index("running"), feature.Index("kv_used")

// Add reads a row. They may come in any order. Requests without a first token
// took nothing that is known.
func (u *Usage) Add(r *feature.Row) {
	if !u.begun {
		u.begun, u.from = true, r.DecidedAt
	}
	o := &r.Outcome
	if feature.IsUnknown(float64(o.TTFT)) {
		return
	}
	c := &u.profile.Coefficients
	prompt, cached := float64(r.Vector[feature.ColumnPromptTokens]), o.CachedTokens
	if feature.IsUnknown(cached) { // the engine does not tell: as the router believed
		cached = float64(r.Vector[feature.ColumnCachedTokens])
	}
	if feature.IsUnknown(cached) {
		cached = 0
	}
	if !(prompt >= 1) {
		return
	}
	cached = min(max(cached, 0), prompt-1)
	p := part{
		at:      r.DecidedAt.Sub(u.from), // below 0 where it was sent before the first row
		prefill: float64(c.Work(prompt, prompt-cached)),
		slots:   float64(r.Vector[columnRunning]) / float64(u.profile.MaxNumSeqs),
		kv:      float64(r.Vector[columnKVUsed]),
	}
	p.saved = float64(c.Work(prompt, prompt)) - p.prefill
	p.first = p.at + seconds(o.TTFT)
	p.last = p.first
	if !feature.IsUnknown(float64(o.E2E)) {
		p.last = max(p.first, p.at+seconds(o.E2E))
	}
	if output := o.OutputTokens; output > 1 {
		p.decode = (output - 1) * (c.D + c.E*(prompt+output/2))
	}
	u.parts = append(u.parts, p)
}

func seconds(s feature.Seconds) time.Duration { return time.Duration(float64(s) * 1e9) }
