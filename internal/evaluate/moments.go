package evaluate

import (
	"maps"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// mostMoments is how many moments of a run are kept apart at most.
const mostMoments = 240

// moments is what was forecast and what came over time, in moments of equal
// length: a second at first, twice as long whenever there are too many.
type moments struct {
	length time.Duration
	all    map[int64]*moment
}

type moment struct{ actual, p50, p90 sketch }

func (m *moments) add(at time.Time, q feature.Quantiles, actual float64) {
	if m.all == nil {
		m.length, m.all = time.Second, map[int64]*moment{}
	}
	k := m.key(at)
	if m.all[k] == nil {
		m.all[k] = &moment{sketch{}, sketch{}, sketch{}}
		for len(m.all) > mostMoments {
			m.double()
		}
		k = m.key(at)
	}
	x := m.all[k]
	x.actual.add(actual)
	x.p50.add(float64(q.P50))
	if q.P90 > 0 {
		x.p90.add(float64(q.P90))
	}
}

func (m *moments) key(at time.Time) int64 { return at.Unix() / int64(m.length/time.Second) }

// double makes moments twice as long.
func (m *moments) double() {
	m.length *= 2
	wide := map[int64]*moment{}
	for k, x := range m.all {
		w := wide[k/2]
		if w == nil {
			wide[k/2] = x
			continue
		}
		w.actual.merge(x.actual)
		w.p50.merge(x.p50)
		w.p90.merge(x.p90)
	}
	m.all = wide
}

// A Moment is what some seconds of a run came to.
type Moment struct {
	At     time.Time      `json:"at"` // its middle
	Actual feature.Number `json:"actual"`
	P50    feature.Number `json:"p50"` // median of the forecasts
	P90    feature.Number `json:"p90"`
	High   feature.Number `json:"actual_p90"`
}

func (m *moments) list() []Moment {
	out := []Moment{}
	for _, k := range slices.Sorted(maps.Keys(m.all)) {
		x := m.all[k]
		out = append(out, Moment{
			At:     time.Unix(k*int64(m.length/time.Second), 0).Add(m.length / 2).UTC(),
			Actual: feature.Number(x.actual.quantile(0.5)), High: feature.Number(x.actual.quantile(0.9)),
			P50: feature.Number(x.p50.quantile(0.5)), P90: feature.Number(x.p90.quantile(0.5)),
		})
	}
	return out
}
