package route

import (
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/prefix"
)

// llm is what a router has learned of one LLM. Guarded by Router.mu.
type llm struct {
	name     string
	guard    correction.Guard
	coverage correction.Coverage
	output   correction.Output
	turns    prefix.Answers
	bytes    tokenRatio
	demand   correction.Demand
	turn     uint64 // counts its decisions: round-robin's position

	listed time.Time // when an endpoint was last found to list it
	used   time.Time // when a request was last decided for it

	decisions, forecasts, shed uint64
	history                    history

	serving  []*endpoint    // see Router.serving
	servedIn *pool.Snapshot // that they are of

	accounted time.Time // until when the time in its states is counted
}

func newLLM(name string, c *Config, now time.Time) *llm {
	return &llm{
		name:   name,
		guard:  correction.NewGuard(c.Limits, now),
		bytes:  tokenRatio{perByte: c.TokensPerByte, settled: c.TokensPerByte},
		demand: correction.NewDemand(now),

		accounted: now,
	}
}

// tokenRatio learns how many tokens a byte of prompt text makes.
type tokenRatio struct {
	perByte float64
	// settled is perByte as it was when it had last drifted by ratioDrift.
	// What must not change from one request to the next goes by it: how many
	// bytes of a chain an image takes, how many blocks a cache holds.
	settled float64
}

// mostPerByte is the most tokens that a byte of text can make.
const mostPerByte = 2

// ratioDrift is how far, as a factor, a learned ratio may be from the one in
// use before it takes its place.
const ratioDrift = 1.1

// settle takes a drift into use.
func (t *tokenRatio) settle() {
	if drifted(t.perByte, t.settled) {
		t.settled = t.perByte
	}
}

func drifted(ratio, from float64) bool { return ratio > from*ratioDrift || ratio*ratioDrift < from }

func (t *tokenRatio) observe(tokens float64, bytes int) {
	if bytes < 64 || !(tokens > 0) {
		return
	}
	ratio := min(mostPerByte, max(0.01, tokens/float64(bytes)))
	t.perByte += 0.02 * (ratio - t.perByte)
}

// matched is the matched configuration for traffic that is bound so.
func matched(b correction.Bound) string {
	switch b {
	case correction.PrefillBound:
		return policy.TokenLoad
	case correction.DecodeBound:
		return policy.ActiveRequest
	}
	return policy.CombinedLoad
}

// promptTokens estimates the prompt's length in tokens.
func (l *llm) promptTokens(q *Query) float64 {
	return math.Ceil(float64(q.PromptBytes)*l.bytes.perByte) + float64(q.PromptTokens)
}

// limit is the request's own bound on its output; NaN without one.
func (q *Query) limit() float64 {
	if q.MaxOutputTokens < 0 {
		return feature.Unknown
	}
	return float64(q.MaxOutputTokens)
}
