package export

import (
	"fmt"
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// clockSlack is how far a router's clock may be ahead of a reader's.
const clockSlack = 24 * time.Hour

// earliest is before every decision there is.
var earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// longestLLM is the longest name of an LLM that a router takes, in bytes; a store
// keeps an index of them.
const longestLLM = 256

// Check says which column of a row that was read no router can have written, or
// not with this build's vector, and why. now is the time of who reads.
func (r *Row) Check(now time.Time) error {
	d, o := &r.Decision, &r.Outcome
	if d.ID == (feature.ID{}) {
		return wrong("decision", "a decision must have an id")
	}
	if d.DecidedAt.Before(earliest) || d.DecidedAt.After(now.Add(clockSlack)) {
		return wrong("decided_at", "%q is no time of a decision: want one since %d that is not to come", textOf(&d.DecidedAt), earliest.Year())
	}
	if len(d.LLM) > longestLLM {
		return wrong("llm", "%q has %d bytes, and names of LLMs at most %d", clipped(d.LLM), len(d.LLM), longestLLM)
	}
	if d.Schema != feature.Schema {
		return wrong("schema", "its vector is of schema %s and this build has %s: read it with the version that logged it", d.Schema, feature.Schema)
	}
	if !isProbability(d.Propensity) {
		return wrong("propensity", "%v is no probability", d.Propensity)
	}
	for i := range d.Candidates {
		if c := &d.Candidates[i]; !isProbability(c.Probability) {
			return wrong("candidates", "%v is no probability, of %q", c.Probability, clipped(c.Endpoint))
		}
	}
	if d.Rest < 0 {
		return wrong("rest", "%d is no number of endpoints", d.Rest)
	}
	if o.Attempt < 0 || (o.Attempt > 0) != (o.Status != "") {
		return wrong("status", "%q does not go with attempt %d", o.Status, o.Attempt)
	}
	for _, x := range []struct {
		column string
		took   feature.Seconds
	}{{"ttft", o.TTFT}, {"tpot", o.TPOT}, {"e2e", o.E2E}, {"censored_at", o.CensoredAt}} {
		if x.took < 0 || math.IsInf(float64(x.took), 0) {
			return wrong(x.column, "%v s can't have passed", float64(x.took))
		}
	}
	for _, x := range []struct {
		column string
		tokens float64
	}{
		{"prompt_tokens", d.PromptTokens}, {"expected_output_tokens", d.ExpectedOutputTokens},
		{"output_tokens", o.OutputTokens}, {"cached_tokens", o.CachedTokens},
	} {
		if x.tokens < 0 || math.IsInf(x.tokens, 0) {
			return wrong(x.column, "%v is no number of tokens", x.tokens)
		}
	}
	return nil
}

func wrong(column, format string, args ...any) error {
	return fmt.Errorf("column %s: %w", column, fmt.Errorf(format, args...))
}

// isProbability reports whether p is one, or unknown.
func isProbability(p float64) bool { return !(p < 0 || p > 1+1e-9) }
