package evaluate

import (
	"math"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Scores say how good the forecasts of some rows were. What the rows cannot
// tell is unknown. With few rows, or none that were measured, most is.
type Scores struct {
	Rows     int64 `json:"rows"`     // measured and forecast
	Censored int64 `json:"censored"` // beside them: not measured, but known to have been above the p90

	MAPE      feature.Number `json:"mape"`       // mean of |forecast-actual|/actual, of the p50
	MedianAPE feature.Number `json:"median_ape"` // median of it, to 0.2 % of itself
	WAPE      feature.Number `json:"wape"`       // sum of |forecast-actual| over the sum of actual: long requests weigh more

	PinballP50 feature.Number `json:"pinball_p50"` // mean pinball loss of ln(actual/forecast): half of the mean error in log
	PinballP90 feature.Number `json:"pinball_p90"`

	Coverage Proportion     `json:"coverage"` // of the p90: share of rows at or below it; the censored count as above
	Width    feature.Number `json:"width"`    // geometric mean of p90/p50; coverage is worth the more the less of this it takes

	Bias     feature.Number `json:"bias"`      // geometric mean of forecast/actual: 1 is none, 1.1 is 10 % too long
	RatioP10 feature.Number `json:"ratio_p10"` // quantiles of actual/forecast, to 0.2 % of themselves
	RatioP50 feature.Number `json:"ratio_p50"`
	RatioP90 feature.Number `json:"ratio_p90"`

	Pairs       float64        `json:"pairs"`       // of which the later request is one of these rows
	Concordance feature.Number `json:"concordance"` // share of them in the right order; see Concordance
}

// A tally gathers what Scores are made from, for one quantity of one series of
// forecasts. Tallies of parts add up to that of the whole.
type tally struct {
	rows, censored       int64
	ape, off, actual     float64 // sums of the error relative to the actual, of the error, of the actual
	apes, ratios         sketch
	pinball50, pinball90 float64
	log                  float64 // sum of ln(forecast/actual)
	logSquares           float64
	judged, covered      int64 // rows with a p90, censored ones included
	width                float64
	pairs                share
}

func newTally() *tally { return &tally{apes: sketch{}, ratios: sketch{}} }

// add adds a measured row; q has a P50.
func (t *tally) add(q feature.Quantiles, actual float64) {
	p50, p90 := float64(q.P50), float64(q.P90)
	t.rows++
	ape := math.Abs(p50-actual) / actual
	t.ape += ape
	t.off += math.Abs(p50 - actual)
	t.actual += actual
	t.apes.add(ape)
	t.ratios.add(actual / p50)
	bias := math.Log(p50 / actual)
	t.log += bias
	t.logSquares += bias * bias
	t.pinball50 += Pinball(0.5, -bias, 0)
	if !(p90 > 0) {
		return
	}
	t.judged++
	if actual <= p90 {
		t.covered++
	}
	t.pinball90 += Pinball(0.9, math.Log(actual), math.Log(p90))
	t.width += math.Log(p90 / p50)
}

// addCensored adds a row of which is only known that it took longer than the
// p90.
func (t *tally) addCensored() {
	t.censored++
	t.judged++
}

func (t *tally) merge(o *tally) {
	t.rows += o.rows
	t.censored += o.censored
	t.ape += o.ape
	t.off += o.off
	t.actual += o.actual
	t.apes.merge(o.apes)
	t.ratios.merge(o.ratios)
	t.pinball50 += o.pinball50
	t.pinball90 += o.pinball90
	t.log += o.log
	t.logSquares += o.logSquares
	t.judged += o.judged
	t.covered += o.covered
	t.width += o.width
	t.pairs.add(o.pairs)
}

func (t *tally) scores() Scores {
	n := float64(t.rows)
	return Scores{
		Rows: t.rows, Censored: t.censored,
		MAPE: feature.Number(t.ape / n), MedianAPE: feature.Number(t.apes.quantile(0.5)), WAPE: feature.Number(t.off / t.actual),
		PinballP50: feature.Number(t.pinball50 / n), PinballP90: feature.Number(t.pinball90 / float64(t.judged-t.censored)),
		Coverage: Wilson(t.covered, t.judged), Width: feature.Number(math.Exp(t.width / float64(t.judged-t.censored))),
		Bias:     feature.Number(math.Exp(t.log / n)),
		RatioP10: feature.Number(t.ratios.quantile(0.1)), RatioP50: feature.Number(t.ratios.quantile(0.5)), RatioP90: feature.Number(t.ratios.quantile(0.9)),
		Pairs: t.pairs.n, Concordance: feature.Number(t.pairs.sum / t.pairs.n),
	}
}
