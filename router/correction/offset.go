package correction

import (
	"math"

	"github.com/spillway-llm/spillway/internal/feature"
)

// offsetMost is the largest correction of an endpoint, in log: 2.7 times. Forecasts
// that are wrong by two on some endpoints only must be put right, for an error that
// stays with an endpoint is what misleads most.
const offsetMost = 1

// Offset corrects the forecasts of one endpoint by what remained of the errors
// of its last 64 outcomes: their median, as a share of the forecast, within +-1
// in log. What an endpoint adds to every TTFT alike (front door, network) is
// told from what it is slower by. The zero value corrects nothing.
type Offset struct {
	ttft, tpot line
}

// Observe adds one outcome: the forecast as the bundle gave it, tempered (its p50
// before this correction), and what was measured. Unknown values are skipped.
func (o *Offset) Observe(forecast feature.Forecast, ttft, tpot feature.Seconds) {
	o.ttft.observe(float64(forecast.TTFT.P50), float64(ttft), true)
	o.tpot.observe(float64(forecast.TPOT.P50), float64(tpot), false)
}

// forget keeps a quarter of the evidence; for when another bundle is served,
// which has errors of its own.
func (o *Offset) forget() {
	o.ttft.forget()
	o.tpot.forget()
}

// clear keeps nothing.
func (o *Offset) clear() { *o = Offset{} }

// TTFT is the correction of a forecast (its p50) in log: multiply by exp of it.
func (o *Offset) TTFT(forecast feature.Seconds) float64 { return o.ttft.log(float64(forecast)) }

// TPOT is the correction of TPOT; see TTFT.
func (o *Offset) TPOT(forecast feature.Seconds) float64 { return o.tpot.log(float64(forecast)) }

func logRatio(actual, forecast feature.Seconds) float64 {
	if !(actual > 0) || !(forecast > 0) {
		return math.NaN()
	}
	return math.Log(float64(actual) / float64(forecast))
}

// Correct is what is added to the residuals of one endpoint's forecast, which
// is tempered, under that load (see LoadOf).
func Correct(o *Offset, c *Coverage, forecast feature.Forecast, load float64) feature.Residual {
	ttft, tpot := o.TTFT(forecast.TTFT.P50), o.TPOT(forecast.TPOT.P50)
	return feature.Residual{
		TTFT: feature.LogQuantiles{P50: ttft, P90: ttft + c.TTFT(load)},
		TPOT: feature.LogQuantiles{P50: tpot, P90: tpot + c.TPOT(load)},
	}
}

// Plain takes a correction out of a forecast again: what the bundle and the
// prior alone say, tempered.
func Plain(f feature.Forecast, c feature.Residual) feature.Forecast {
	if !f.Known() {
		return f
	}
	f.TTFT.P50 *= feature.Seconds(math.Exp(-c.TTFT.P50))
	f.TTFT.P90 *= feature.Seconds(math.Exp(-c.TTFT.P90))
	f.TPOT.P50 *= feature.Seconds(math.Exp(-c.TPOT.P50))
	f.TPOT.P90 *= feature.Seconds(math.Exp(-c.TPOT.P90))
	return f
}
