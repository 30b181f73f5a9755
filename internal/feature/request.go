package feature

import (
	"math"
	"strconv"
	"time"
)

// Seconds is a duration of the learned problem. NaN means unknown.
type Seconds float64

// Unknown is the value of every number that is not known. It is a NaN:
// compare with IsUnknown, never with ==.
var Unknown = math.NaN()

// IsUnknown reports whether v is unknown.
func IsUnknown[T ~float64](v T) bool { return v != v }

// SecondsOf converts a duration.
func SecondsOf(d time.Duration) Seconds { return Seconds(d.Seconds()) }

// Duration converts s, rounding to the nanosecond. Unknown becomes 0, so ask
// IsUnknown first where that matters.
func (s Seconds) Duration() time.Duration {
	if s != s {
		return 0
	}
	return time.Duration(float64(s) * float64(time.Second))
}

// Request is what is known of one request towards one endpoint: the prompt
// is the same for every endpoint, the cached part of it is not.
type Request struct {
	PromptTokens         float64 // estimated tokens of the whole prompt
	CachedTokens         float64 // contiguous prefix believed to be in this endpoint's KV cache
	ExpectedOutputTokens float64 // estimate of the tokens that will be generated
	MaxOutputTokens      float64 // the request's own limit; NaN when it gives none
	Completions          float64 // sequences asked for (the field n), at least 1
}

// MinUncachedTokens is the least prefill work any request costs: an engine
// recomputes at least the last block of a fully cached prompt (16 tokens, the
// block size of vLLM).
const MinUncachedTokens = 16

// UncachedTokens is the prefill work of r in tokens, at least
// MinUncachedTokens.
func (r Request) UncachedTokens() float64 {
	return max(MinUncachedTokens, r.PromptTokens-r.CachedTokens)
}

// MarshalJSON writes s as a number of seconds, null when unknown.
func (s Seconds) MarshalJSON() ([]byte, error) { return Number(s).MarshalJSON() }

// Number is a number for JSON that may be unknown: NaN and infinities are
// written as null.
type Number float64

// MarshalJSON writes n, or null when it is unknown.
func (n Number) MarshalJSON() ([]byte, error) {
	if v := float64(n); math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', -1, 64), nil
}
