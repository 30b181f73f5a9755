package simulate

import (
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
)

// Metrics are what clients met in one run or in the log. They are of the requests
// of the log that were answered, once it has settled: after the first twentieth,
// or until what was on its way when it began has ended; a latency is of those
// that have one in the log. A request that failed in a run counts as if it had
// taken as long as clients wait, 600 s, but for its TPOT, which it has not.
type Metrics struct {
	Requests int            `json:"requests"`
	TTFT     Times          `json:"ttft"`
	TPOT     Times          `json:"tpot"`
	E2E      Times          `json:"e2e"`
	Failed   feature.Number `json:"failed"`   // share of all requests
	HitRate  feature.Number `json:"hit_rate"` // prompt tokens found cached, of those of requests of which the log says
}

// Times are seconds.
type Times struct {
	Mean feature.Seconds `json:"mean"`
	P50  feature.Seconds `json:"p50"`
	P90  feature.Seconds `json:"p90"`
}

// Result is what one run came to.
type Result struct {
	Seed    uint64  `json:"seed"`
	Metrics Metrics `json:"metrics"`
}

// seen is what became of a request. Latencies are unknown where there are none.
type seen struct {
	ttft, tpot, e2e float64 // seconds
	cached          float64
	ok              bool
}

// seenOf is what a client of a run saw.
func seenOf(o *fleet.Outcome) seen {
	s := seen{math.NaN(), math.NaN(), math.NaN(), float64(o.CachedTokens), o.Status == feature.OK}
	if o.TTFT > 0 {
		s.ttft = o.TTFT.Seconds()
	}
	if s.ok {
		s.e2e = o.E2E.Seconds()
		if o.OutputTokens > 1 {
			s.tpot = o.TPOT.Seconds()
		}
	}
	return s
}

// settle finds when what was on its way when the log began, and what waited for it,
// has ended.
func (l *log) settle() {
	length := l.to.Sub(l.from).Seconds()
	var took []float64
	for i := range l.requests {
		q := &l.requests[i]
		if q.at > settleLeast*length {
			break
		}
		if q.e2e > 0 {
			took = append(took, q.e2e)
		}
	}
	slices.Sort(took)
	l.settled = settleLeast * length
	if len(took) > 0 {
		l.settled = bounded(settleTimes*evaluate.Quantile(took, 0.9), l.settled, settleMost*length)
	}
}

// metrics are those of a run.
func (m *Model) metrics(run []seen) Metrics { return m.log.metrics(func(i int) seen { return run[i] }) }

// logged are those of the log.
func (l *log) logged() Metrics {
	return l.metrics(func(i int) seen {
		q := &l.requests[i]
		return seen{q.ttft, q.tpot, q.e2e, q.cached, q.ok}
	})
}

func (l *log) metrics(of func(i int) seen) Metrics {
	var ttft, tpot, e2e []float64
	var out Metrics
	var cached, prompt, failed, all float64
	from := l.settled
	add := func(to *[]float64, logged, v float64) {
		switch {
		case !(logged > 0): // the log has none
		case v > 0:
			*to = append(*to, v)
		default:
			*to = append(*to, patience.Seconds())
		}
	}
	for i := range l.requests {
		q := &l.requests[i]
		if q.at < from {
			continue
		}
		s := of(i)
		if all++; !s.ok {
			failed++
		}
		if !q.ok {
			continue
		}
		out.Requests++
		add(&ttft, q.ttft, s.ttft)
		add(&e2e, q.e2e, s.e2e)
		if q.tpot > 0 && s.tpot > 0 {
			tpot = append(tpot, s.tpot)
		}
		if q.cached >= 0 && s.ok {
			cached, prompt = cached+s.cached, prompt+float64(q.prompt)
		}
	}
	out.TTFT, out.TPOT, out.E2E = timesOf(ttft), timesOf(tpot), timesOf(e2e)
	out.Failed, out.HitRate = feature.Number(failed/all), feature.Number(cached/prompt)
	return out
}

// timesOf sorts values and describes them.
func timesOf(values []float64) Times {
	unknown := feature.Seconds(feature.Unknown)
	if len(values) == 0 {
		return Times{unknown, unknown, unknown}
	}
	slices.Sort(values)
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return Times{
		feature.Seconds(sum / float64(len(values))),
		feature.Seconds(evaluate.Quantile(values, 0.5)), feature.Seconds(evaluate.Quantile(values, 0.9)),
	}
}
