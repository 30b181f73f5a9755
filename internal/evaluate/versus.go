package evaluate

import (
	"github.com/spillway-llm/spillway/internal/feature"
)

// ConcordanceOver is by how much the share of pairs that the rows' forecasts
// put in order is above that of other forecasts of the same rows, with its
// block-bootstrap interval; see Concordance. Rows of which either says nothing
// are left out. others must hold one forecast a row.
func ConcordanceOver(rows []Dispatched, others []float64, seed uint64) Interval {
	mine, theirs := pairing{}, pairing{}
	over := make([]share, len(rows))
	for i := range rows {
		a, b := rows[i], rows[i]
		b.Forecast = others[i]
		if feature.IsUnknown(a.Forecast) || feature.IsUnknown(b.Forecast) {
			continue
		}
		pairs := mine.add(&a)
		over[i] = share{pairs.sum - theirs.add(&b).sum, pairs.n}
	}
	return blockwise(over, seed)
}

// EndpointSpread is the BiasSpread of log errors ln(forecast/actual), one a
// row, of which the same place in endpoints says where it was served. Unknown
// errors are left out.
func EndpointSpread(endpoints []string, errors []float64) BiasSpread {
	by := map[string]*tally{}
	var order []*tally // first seen first: sums must not depend on a map
	for i, e := range errors {
		if e != e {
			continue
		}
		t := by[endpoints[i]]
		if t == nil {
			t = &tally{}
			by[endpoints[i]] = t
			order = append(order, t)
		}
		t.rows++
		t.log += e
		t.logSquares += e * e
	}
	return spreadOf(order)
}
