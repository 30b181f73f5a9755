package openai

import (
	"math"
	"time"
)

// Labels are the latencies of one response, in seconds; NaN where unknown.
type Labels struct {
	// TTFT is dispatch to the first generated token of any channel.
	TTFT float64
	// TPOT is the mean time between tokens after the first:
	// (last - first) / (n - 1).
	TPOT float64
	// E2E is dispatch to the end of the response.
	E2E float64
}

// Labels returns the latencies of a response that was dispatched, that is,
// whose request was handed to the endpoint, at dispatch and ended at end (the
// zero time: not yet, or not well).
//
// n is the engine's own count of tokens, else the events counted. Responses
// that were not streamed have E2E alone; fewer than two tokens, or tokens that
// all arrived at once, have no TPOT. What is observed is returned however the
// response ended: whether it may serve as a sample is for the caller to say.
func (m *Meter) Labels(dispatch, end time.Time) Labels {
	l := Labels{TTFT: math.NaN(), TPOT: math.NaN(), E2E: math.NaN()}
	if !end.IsZero() {
		l.E2E = end.Sub(dispatch).Seconds()
	}
	if m.count == 0 {
		return l
	}
	l.TTFT = m.first.Sub(dispatch).Seconds()
	if n := m.Tokens(); n >= 2 && m.last.After(m.first) {
		l.TPOT = m.last.Sub(m.first).Seconds() / float64(n-1)
	}
	return l
}
