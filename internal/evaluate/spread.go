package evaluate

import (
	"math"

	"github.com/spillway-llm/spillway/internal/feature"
)

// A BiasSpread is how unlike the biases of endpoints are. A bias that all
// share does no harm to routing; one that they do not share sends requests to
// the wrong endpoint.
type BiasSpread struct {
	Endpoints int `json:"endpoints"` // that are compared: those with at least MinSpreadRows
	// Range is the greatest bias over the least, less 1. It grows with the
	// number of endpoints and with noise.
	Range feature.Number `json:"range"`
	// Typical is what of the differences noise does not explain: the standard
	// deviation between endpoints of ln(forecast/actual), as a ratio less 1.
	Typical feature.Number `json:"typical"`
}

// MinSpreadRows is how many rows an endpoint must have for its bias to be
// compared.
const MinSpreadRows = 50

// spreadOf compares the endpoints' tallies. The variance between them is
// estimated as in a one-way analysis of variance with unequal sizes.
func spreadOf(endpoints []*tally) BiasSpread {
	s := BiasSpread{Range: feature.Number(feature.Unknown), Typical: feature.Number(feature.Unknown)}
	var n, squares, log, within float64
	least, most := math.Inf(1), math.Inf(-1)
	for _, t := range endpoints {
		if t.rows < MinSpreadRows {
			continue
		}
		s.Endpoints++
		m := float64(t.rows)
		bias := t.log / m
		least, most = min(least, bias), max(most, bias)
		n += m
		squares += m * m
		log += t.log
		within += t.logSquares - m*bias*bias
	}
	if s.Endpoints < 2 {
		return s
	}
	s.Range = feature.Number(math.Exp(most-least) - 1)
	var between float64
	for _, t := range endpoints {
		if t.rows >= MinSpreadRows {
			d := t.log/float64(t.rows) - log/n
			between += float64(t.rows) * d * d
		}
	}
	k := float64(s.Endpoints)
	noise := within / (n - k)
	variance := max(0, (between-(k-1)*noise)/(n-squares/n))
	s.Typical = feature.Number(math.Exp(math.Sqrt(variance)) - 1)
	return s
}
