package evaluate

import (
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Concordance counts pairs: of two requests to one LLM that were dispatched
// at about the same time to different endpoints, did the forecasts say which
// would be the faster? Routing needs nothing else of a forecast, and an error
// that all endpoints share does not matter to it.
const (
	// PairWindow is how far apart the two of a pair may be dispatched: within
	// it the load of the fleet is about the same.
	PairWindow = 5 * time.Second
	// mostPartners bounds what one row costs at a high rate: it is paired with
	// so many of those dispatched just before it, no more.
	mostPartners = 64
)

// A Dispatched is one request as Concordance looks at it.
type Dispatched struct {
	At               time.Time
	LLM, Endpoint    string
	Forecast, Actual float64 // of one latency, in any unit that both share
}

// Concordance is the share of pairs that the forecasts put in the order in
// which they turned out, with its block-bootstrap interval: 1 is perfect, 0.5
// is what a coin reaches. Equal forecasts count half, pairs that turned out
// equal do not count, and rows without a forecast or an actual are left out.
// Rows stand in order of time; one that lies before the last begins another run,
// whose rows are not paired with those of the first. Without any pair all
// numbers are unknown.
func Concordance(rows []Dispatched, seed uint64) Interval {
	p := pairing{}
	score := make([]share, len(rows))
	for i := range rows {
		score[i] = p.add(&rows[i])
	}
	return blockwise(score, seed).ofShare()
}

// pairing remembers, per LLM, the rows that the next one may be paired with.
type pairing map[string][]Dispatched

// add pairs d with those before it: how many pairs there are, and how many of
// them are concordant.
func (p pairing) add(d *Dispatched) share {
	if feature.IsUnknown(d.Forecast) || feature.IsUnknown(d.Actual) {
		return share{}
	}
	recent := p[d.LLM]
	if n := len(recent); n > 0 && d.At.Before(recent[n-1].At) {
		recent = nil
	}
	for len(recent) > 0 && (d.At.Sub(recent[0].At) > PairWindow || len(recent) > mostPartners) {
		recent = recent[1:]
	}
	var s share
	for i := range recent {
		if r := &recent[i]; r.Endpoint != d.Endpoint {
			s.pair(r.Forecast, d.Forecast, r.Actual, d.Actual)
		}
	}
	p[d.LLM] = append(recent, *d)
	return s
}

// pair counts one pair. One that turned out equal, or of which something is
// unknown, is none.
func (s *share) pair(forecastA, forecastB, actualA, actualB float64) {
	var good float64
	switch {
	case !(actualA < actualB) && !(actualA > actualB):
		return
	case forecastA == forecastB:
		good = 0.5
	case forecastA < forecastB:
		good = one(actualA < actualB)
	case forecastA > forecastB:
		good = one(actualA > actualB)
	default: // no forecast
		return
	}
	s.sum += good
	s.n++
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
