package drift

import (
	"math"
	"time"

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

// Observe takes one forecast, as the bundle gave it, and what was measured of a
// request that was decided at the time at; what is unknown is skipped. It reports
// the first signal that moved, and since when, by the signal that dates it latest of
// those that move with it: sums of little slack begin to grow by chance long
// before. Then the watch begins anew.
// Outcomes are observed in order of their decisions.
func (w *Watch) Observe(at time.Time, f feature.Forecast, ttft, tpot feature.Seconds) (s Signal, since time.Time, moved bool) {
	of := [2][2]change{w.ttft.add(at, f.TTFT, ttft), w.tpot.add(at, f.TPOT, tpot)}
	for i, c := range []change{of[0][0], of[1][0], of[0][1], of[1][1]} {
		if c.moved {
			since := c.since
			for _, d := range []*Detector{&w.ttft.residual, &w.tpot.residual, &w.ttft.misses, &w.tpot.misses} {
				if from, rising := d.rising(); rising && from.After(since) {
					since = from
				}
			}
			*w = *NewWatch()
			return Signals[i], since, true
		}
	}
	return "", since, false
}

// change is what a detector reports.
type change struct {
	since time.Time
	moved bool
}

// add returns what became of the residual, and of the misses.
func (p *pair) add(at time.Time, q feature.Quantiles, actual feature.Seconds) (out [2]change) {
	if !(actual > 0 && q.P50 > 0 && q.P90 > 0) || math.IsInf(float64(actual), 1) {
		return out
	}
	miss := 0.0
	if actual > q.P90 {
		miss = 1
	}
	out[0].since, out[0].moved = p.residual.Add(at, math.Log(float64(actual/q.P50)))
	out[1].since, out[1].moved = p.misses.Add(at, miss)
	return out
}
