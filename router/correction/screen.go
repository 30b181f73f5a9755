package correction

import (
	"math"

	"github.com/spillway-llm/spillway/internal/feature"
)

// LongestForecast is the longest latency that a forecast may say, or start from.
const LongestForecast feature.Seconds = 600

const (
	// mostResidual bounds a log-residual: no prior is wrong by a factor of
	// e^20.
	mostResidual = 20
	// honestResidual is how far above its prior, in log, an answer beyond
	// LongestForecast may be and still be the queue's doing: four times the
	// clip that bundles begin with.
	honestResidual = 1
)

// Startable reports whether a forecast can start from a prior: whether it is a
// latency that a forecast may say.
func Startable(p feature.Prior) bool {
	return p.TTFT > 0 && p.TTFT <= LongestForecast && p.TPOT > 0 && p.TPOT <= LongestForecast
}

// Screen looks at an answer: out[i] is what was forecast from vectors[i]. Those
// longer than a forecast may say, and no wonder after such a prior, become
// NoForecast; long is how many. absurd is the first that no engine could keep,
// and that makes the whole answer Invalid; -1 where there is none.
func Screen(vectors []feature.Vector, out []feature.Forecast) (long, absurd int) {
	absurd = -1
	for i := range out {
		switch screen(vectors[i].Prior(), &out[i]) {
		case tooLong:
			out[i] = feature.NoForecast
			long++
		case unkeepable:
			if absurd < 0 {
				absurd = i
			}
		}
	}
	return long, absurd
}

// verdict is what a forecast deserves.
type verdict uint8

const (
	usable     verdict = iota // also when it is no forecast at all
	tooLong                   // no forecast to use, and no wonder after such a prior
	unkeepable                // what no engine could keep
)

// screen judges the forecast that was made from a prior.
func screen(prior feature.Prior, f *feature.Forecast) verdict {
	worst, unknown := usable, 0
	for _, x := range [...]struct {
		latency, prior feature.Seconds
		residual       float64
	}{
		{f.TTFT.P50, prior.TTFT, f.Residual.TTFT.P50},
		{f.TTFT.P90, prior.TTFT, f.Residual.TTFT.P90},
		{f.TPOT.P50, prior.TPOT, f.Residual.TPOT.P50},
		{f.TPOT.P90, prior.TPOT, f.Residual.TPOT.P90},
	} {
		switch {
		case feature.IsUnknown(x.latency):
			unknown++
		case !(x.latency > 0) || !(math.Abs(x.residual) <= mostResidual):
			return unkeepable
		case x.latency <= LongestForecast:
		case x.latency <= x.prior*feature.Seconds(math.Exp(honestResidual)):
			worst = tooLong
		default:
			return unkeepable
		}
	}
	if unknown > 0 && unknown < 4 {
		return unkeepable
	}
	return worst
}
