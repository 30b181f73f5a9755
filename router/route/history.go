package route

import (
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
)

// PeriodLength is the time that one Period of a history covers, and
// HistoryPeriods how many are kept: an hour.
const (
	PeriodLength   = 10 * time.Second
	HistoryPeriods = 360
)

// Period is what happened to one LLM's requests within PeriodLength. A decision
// counts when it was made, a measurement when its request ended.
type Period struct {
	Began     time.Time
	Decisions uint32
	Forecasts uint32 // decisions that forecasts decided
	Spilled   uint32 // in which the valve opened: the request left its prefix
	Explored  uint32
	Shed      uint32
	Ended     uint32
	Failed    uint32 // of those ended, by the fault of an engine or of time
	TTFT      Compared
	TPOT      Compared
}

// Compared is a forecast held against what came of it. Their middle is the
// geometric mean: latencies spread by factors.
type Compared struct {
	Measured uint32 // requests
	Requests uint32 // of them, that had a forecast
	Within   uint32 // of these, that took no longer than their p90
	forecast float64
	actual   float64 // sums of logarithms of seconds, the second over all measured
}

// Forecast is the geometric mean of the forecast p50; unknown without forecasts.
func (c *Compared) Forecast() feature.Seconds { return middle(c.forecast, c.Requests) }

// Actual is the geometric mean of what was measured, with and without a
// forecast; unknown where nothing was.
func (c *Compared) Actual() feature.Seconds { return middle(c.actual, c.Measured) }

// Coverage is the share of the requests that took no longer than their p90;
// unknown without forecasts.
func (c *Compared) Coverage() feature.Number {
	if c.Requests == 0 {
		return feature.Number(feature.Unknown)
	}
	return feature.Number(float64(c.Within) / float64(c.Requests))
}

func middle(sum float64, n uint32) feature.Seconds {
	if n == 0 {
		return feature.Seconds(feature.Unknown)
	}
	return feature.Seconds(math.Exp(sum / float64(n)))
}

// Add counts one request, if what was measured is known and positive, and
// compares it, if its p50 is too.
func (c *Compared) Add(f *feature.Quantiles, actual feature.Seconds) {
	if !(actual > 0) {
		return
	}
	c.Measured++
	c.actual += math.Log(float64(actual))
	if !(f.P50 > 0) {
		return
	}
	c.Requests++
	if actual <= f.P90 {
		c.Within++
	}
	c.forecast += math.Log(float64(f.P50))
}

// Merge adds what o counted.
func (c *Compared) Merge(o *Compared) {
	c.Measured += o.Measured
	c.Requests += o.Requests
	c.Within += o.Within
	c.forecast += o.forecast
	c.actual += o.actual
}

// history is the last hour of one LLM: a ring that is made once.
type history struct {
	periods []Period
	newest  int
}

// at is the period of now.
func (h *history) at(now time.Time) *Period {
	if h.periods == nil {
		h.periods = make([]Period, HistoryPeriods)
	}
	began := now.Truncate(PeriodLength)
	if p := &h.periods[h.newest]; !began.After(p.Began) {
		return p
	}
	h.newest = (h.newest + 1) % HistoryPeriods
	h.periods[h.newest] = Period{Began: began}
	return &h.periods[h.newest]
}

func (h *history) decided(now time.Time, c *policy.Choice) {
	p := h.at(now)
	p.Decisions++
	if policy.Forecasting(c.Policy) {
		p.Forecasts++
	}
	switch {
	case c.Shed:
		p.Shed++
	case c.Reason.Code == policy.Spilled:
		p.Spilled++
	}
	if c.Explored {
		p.Explored++
	}
}

func (h *history) ended(now time.Time, corrected *feature.Forecast, e *End) {
	p := h.at(now)
	p.Ended++
	switch e.Status {
	case feature.OK:
		p.TTFT.Add(&corrected.TTFT, e.TTFT)
		p.TPOT.Add(&corrected.TPOT, e.TPOT)
	case feature.UpstreamError, feature.UpstreamTimeout, feature.Lost:
		p.Failed++
	}
}

// History is the last hour of an LLM, oldest first, without the periods in
// which nothing happened; the present one is not over. The empty name stands
// for the LLMs that share a place.
func (r *Router) History(name string) []Period {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.llms[name]
	if l == nil {
		l = r.others
	}
	if l == nil {
		return nil
	}
	h := &l.history
	var out []Period
	oldest := time.Now().Add(-HistoryPeriods * PeriodLength)
	for i := range h.periods {
		if p := &h.periods[(h.newest+1+i)%HistoryPeriods]; p.Began.After(oldest) {
			out = append(out, *p)
		}
	}
	return out
}
