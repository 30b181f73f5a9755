package trainer

import (
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
)

// leastAgreement is the rank correlation that the priors of vectors have with
// those that follow from the rest of the same vectors. Coefficients may differ
// between router and trainer, which scales a prior and hardly reorders it.
const leastAgreement = 0.5

// disagreement says which prior of the vectors does not follow from their other
// columns; empty when both do, or do not vary. A window in which columns were
// exchanged can be learned from as well as any other, and nothing that is
// learned from it holds where they are not.
func (t *Trainer) disagreement(all []sample) string {
	all = all[max(0, len(all)-leakRows):]
	var said, follows [2][]float64
	coefficients := map[string]physics.Coefficients{}
	for i := range all {
		s := &all[i]
		c, ok := coefficients[s.Class]
		if !ok {
			c = t.config.coefficients([]string{s.Class})[s.Class]
			coefficients[s.Class] = c
		}
		request, load := taken(&s.Vector)
		prior, mine := s.Vector.Prior(), physics.Estimate(c, request, load)
		// Interference follows from rates of prefill, which no column has.
		said[0], said[1] = append(said[0], float64(prior.TTFT)), append(said[1], float64(prior.TPOT-prior.Interference))
		follows[0], follows[1] = append(follows[0], float64(mine.TTFT)), append(follows[1], float64(mine.TPOT-mine.Interference))
	}
	var rankedSaid, rankedMine [2][]float64
	for k := range said {
		rankedSaid[k], rankedMine[k] = ranks(said[k]), ranks(follows[k])
	}
	columns := [2]int{feature.ColumnPriorTTFT, feature.ColumnPriorTPOT}
	straight, across := 0.0, 0.0
	both := true
	for k, column := range columns {
		if !varies(said[k]) || !varies(follows[k]) {
			both = false
			continue
		}
		agrees := correlation(rankedSaid[k], rankedMine[k])
		if agrees < leastAgreement {
			return feature.Names()[column]
		}
		straight, across = straight+agrees, across+correlation(rankedSaid[k], rankedMine[1-k])
	}
	// Both latencies rise with the load, so one of them alone may well resemble
	// the other more than itself; together they do only when exchanged.
	if both && across > straight {
		return feature.Names()[columns[0]]
	}
	return ""
}

// varies reports whether the values are spread by more than a few percent:
// below, their order means nothing.
func varies(values []float64) bool {
	least, most := values[0], values[0]
	for _, v := range values {
		least, most = min(least, v), max(most, v)
	}
	return most > 1.05*least
}
