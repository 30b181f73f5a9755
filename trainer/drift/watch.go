package drift

import (
	"math"

	"github.com/spillway-llm/spillway/internal/feature"
)

// A Signal is what of the forecasts has moved.
type Signal string

// The signals.
const (
	TTFTResidual Signal = "ttft_residual" // ln(actual/forecast) of TTFT
	TPOTResidual Signal = "tpot_residual"
	TTFTCoverage Signal = "ttft_coverage" // the share of TTFTs at or below their p90
	TPOTCoverage Signal = "tpot_coverage"
)

// Signals lists all of them, for metrics.
var Signals = []Signal{TTFTResidual, TPOTResidual, TTFTCoverage, TPOTCoverage}

// A Watch looks at the forecasts of one bundle for one endpoint class.
type Watch struct{ ttft, tpot pair }

type pair struct{ residual, misses Detector }

// NewWatch returns a watch that has seen nothing.
func NewWatch() *Watch {
	return &Watch{pair{Residuals(), Misses()}, pair{Residuals(), Misses()}}
}

// Observe takes one forecast, as the bundle gave it, and what was measured;
// what is unknown is skipped. It reports the first signal that moved; then the
// watch begins anew. Outcomes are observed in order of their decisions.
func (w *Watch) Observe(f feature.Forecast, ttft, tpot feature.Seconds) (Signal, bool) {
	residual, coverage := w.ttft.add(f.TTFT, ttft)
	tpotResidual, tpotCoverage := w.tpot.add(f.TPOT, tpot)
	for i, moved := range []bool{residual, tpotResidual, coverage, tpotCoverage} {
		if moved {
			*w = *NewWatch()
			return Signals[i], true
		}
	}
	return "", false
}

func (p *pair) add(q feature.Quantiles, actual feature.Seconds) (residual, coverage bool) {
	if !(actual > 0 && q.P50 > 0 && q.P90 > 0) || math.IsInf(float64(actual), 1) {
		return false, false
	}
	miss := 0.0
	if actual > q.P90 {
		miss = 1
	}
	return p.residual.Add(math.Log(float64(actual / q.P50))), p.misses.Add(miss)
}
