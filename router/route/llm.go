package route

import (
	"math"
	"math/bits"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/ledger"
	"github.com/spillway-llm/spillway/router/policy"
)

// llm is what a router has learned of one LLM. Guarded by Router.mu.
type llm struct {
	name     string
	machine  *correction.Machine
	coverage correction.Coverage
	output   outputs
	bytes    tokenRatio
	prefill  rate
	fallback string // present choice of auto
	bundle   int64  // that answered last

	listed time.Time // when an endpoint was last found to list it
	used   time.Time // when a request was last decided for it

	decisions, forecasts uint64
}

func newLLM(name string, c *Config, now time.Time) *llm {
	return &llm{
		name:     name,
		machine:  correction.NewMachine(c.Limits, now),
		bytes:    tokenRatio{perByte: c.TokensPerByte},
		prefill:  rate{began: now},
		fallback: policy.CombinedLoad,
	}
}

const (
	coldOutput   = 500.0 // expected output tokens before anything was seen
	outputMemory = 0.05  // weight of the newest output length in its bucket
)

// outputs expects output lengths by prompt length: a moving mean for each
// power of two of prompt tokens.
type outputs struct {
	mean [24]float64
	seen [24]bool
}

func outputBucket(promptTokens float64) int {
	return min(23, bits.Len64(uint64(max(0, promptTokens))))
}

func (o *outputs) observe(promptTokens, outputTokens float64) {
	if !(outputTokens >= 0 && outputTokens <= ledger.MaxTokens) { // unknown, or no engine's
		return
	}
	b := outputBucket(promptTokens)
	if !o.seen[b] {
		o.mean[b], o.seen[b] = outputTokens, true
		return
	}
	o.mean[b] += outputMemory * (outputTokens - o.mean[b])
}

// expect is the mean output of prompts of that length, of the nearest length
// seen where there were none, and never above the request's own limit.
func (o *outputs) expect(promptTokens, limit float64) float64 {
	b := outputBucket(promptTokens)
	expected := coldOutput
	for d := range len(o.mean) {
		if lower := b - d; lower >= 0 && o.seen[lower] {
			expected = o.mean[lower]
			break
		}
		if upper := b + d; upper < len(o.mean) && o.seen[upper] {
			expected = o.mean[upper]
			break
		}
	}
	if limit >= 0 { // false for NaN
		expected = min(expected, limit)
	}
	return max(1, expected)
}

// tokenRatio learns how many tokens a byte of prompt text makes.
type tokenRatio struct{ perByte float64 }

const imageTokens = 800 // of one image, until an engine says otherwise

func (t *tokenRatio) observe(tokens float64, bytes int) {
	if bytes < 64 || !(tokens > 0) {
		return
	}
	ratio := min(2, max(0.01, tokens/float64(bytes)))
	t.perByte += 0.02 * (ratio - t.perByte)
}

// rate is work sent per second over the last minute.
type rate struct {
	began  time.Time
	second [60]float64
	at     int64
}

func (r *rate) add(now time.Time, work float64) {
	r.advance(now)
	r.second[r.at%60] += work
}

func (r *rate) advance(now time.Time) {
	s := now.Unix()
	for i := range min(60, max(0, s-r.at)) {
		r.second[(s-i)%60] = 0
	}
	r.at = max(r.at, s)
}

func (r *rate) perSecond(now time.Time) float64 {
	r.advance(now)
	var sum float64
	for _, w := range r.second {
		sum += w
	}
	return sum / 60
}

const (
	prefillBound = 0.40 // prefill utilisation above which token-load is the matched configuration
	hysteresis   = 0.20
)

// matched is the matched configuration for the traffic of the last minute:
// token-load when prefill binds, active-request below; combined-load until a
// minute has been seen.
func (l *llm) matched(now time.Time, peakThroughput float64) string {
	if now.Sub(l.prefill.began) < time.Minute || !(peakThroughput > 0) {
		return policy.CombinedLoad
	}
	utilisation := l.prefill.perSecond(now) / peakThroughput
	switch {
	case utilisation > prefillBound*(1+hysteresis):
		l.fallback = policy.TokenLoad
	case utilisation < prefillBound*(1-hysteresis):
		l.fallback = policy.ActiveRequest
	case l.fallback == policy.CombinedLoad:
		l.fallback = policy.ActiveRequest
		if utilisation > prefillBound {
			l.fallback = policy.TokenLoad
		}
	}
	return l.fallback
}

// promptTokens estimates the prompt's length in tokens.
func (l *llm) promptTokens(q *Query) float64 {
	tokens := float64(q.PromptTokens)
	if tokens == 0 {
		tokens = math.Ceil(float64(q.PromptBytes) * l.bytes.perByte)
	}
	return tokens + imageTokens*float64(q.Images)
}

// limit is the request's own bound on its output; NaN without one.
func (q *Query) limit() float64 {
	if q.MaxOutputTokens < 0 {
		return feature.Unknown
	}
	return float64(q.MaxOutputTokens)
}
