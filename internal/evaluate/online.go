package evaluate

import (
	"container/heap"
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
)

// Online corrects the forecasts of one LLM as a router does: by those outcomes
// alone that were known when a decision was made, and by the requests that were
// overdue by then. The zero value knows none.
type Online struct {
	offsets  map[string]*correction.Offset // by endpoint
	coverage correction.Coverage
	underway ending
}

// underwayRequest is a request of which something is known from finished on: its
// outcome, or that it is overdue.
type underwayRequest struct {
	finished         time.Time
	overdue          bool
	load             float64
	endpoint         string
	plain, corrected feature.Forecast
	ttft, tpot       feature.Seconds
}

// Correct corrects the forecast of a case whose outcome will be known at
// finished, and whose Load is what coverage goes by. Cases come in order of time.
func (o *Online) Correct(c *Case, plain feature.Forecast, finished time.Time) feature.Forecast {
	for len(o.underway) > 0 && o.underway[0].finished.Before(c.At) {
		u := heap.Pop(&o.underway).(underwayRequest)
		if u.overdue {
			o.coverage.Overdue(u.load)
			continue
		}
		o.offset(u.endpoint).Observe(u.plain, u.ttft, u.tpot)
		o.coverage.Observe(&correction.Said{Plain: u.plain, Corrected: u.corrected, Load: u.load, Overdue: late(u.ttft, &u.corrected)}, u.ttft, u.tpot)
	}
	by := correction.Correct(o.offset(c.Endpoint), &o.coverage, plain, c.Load)
	corrected := plain
	corrected.TTFT, corrected.TPOT = moved(plain.TTFT, by.TTFT), moved(plain.TPOT, by.TPOT)
	u := underwayRequest{finished, false, c.Load, c.Endpoint, plain, corrected, c.TTFT, c.TPOT}
	heap.Push(&o.underway, u)
	if late(c.TTFT, &corrected) || late(c.CensoredAt, &corrected) {
		u.overdue, u.finished = true, c.At.Add(corrected.TTFT.P90.Duration())
		heap.Push(&o.underway, u)
	}
	return corrected
}

func (o *Online) offset(endpoint string) *correction.Offset {
	if o.offsets == nil {
		o.offsets = map[string]*correction.Offset{}
	}
	if o.offsets[endpoint] == nil {
		o.offsets[endpoint] = &correction.Offset{}
	}
	return o.offsets[endpoint]
}

// late reports whether a first token that came, or had not come, after so long
// was past its p90: a router counts that as soon as it waits so long.
func late(ttft feature.Seconds, corrected *feature.Forecast) bool { return ttft > corrected.TTFT.P90 }

// moved is q with logarithms added to it, its p90 not below its p50.
func moved(q feature.Quantiles, by feature.LogQuantiles) feature.Quantiles {
	q.P50 *= feature.Seconds(math.Exp(by.P50))
	q.P90 *= feature.Seconds(math.Exp(by.P90))
	q.P90 = max(q.P90, q.P50)
	return q
}

// ending is a heap of requests by when they finish.
type ending []underwayRequest

func (e ending) Len() int           { return len(e) }
func (e ending) Less(i, j int) bool { return e[i].finished.Before(e[j].finished) }
func (e ending) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ending) Push(x any)        { *e = append(*e, x.(underwayRequest)) }
func (e *ending) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
