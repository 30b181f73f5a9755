package correction

import (
	"math"

	"github.com/spillway-llm/spillway/internal/feature"
)

const (
	offsetMemory = 60.0 // outcomes after which old evidence weighs 1/e
	offsetShrink = 10.0 // outcomes' worth of belief that nothing remains
	offsetMost   = 0.5  // largest correction, in log
	coverageGain = 0.02 // step of the p90 offset per outcome
	coverageGoal = 0.9
)

// Offset corrects the forecasts of one endpoint by what remained of their
// error: the shrunk mean of ln(actual/forecast), within +-0.5. The zero value
// corrects nothing.
type Offset struct {
	ttft, tpot mean
}

type mean struct{ sum, weight float64 }

func (m *mean) add(x float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return
	}
	keep := 1 - 1/offsetMemory
	m.sum = m.sum*keep + min(2*offsetMost, max(-2*offsetMost, x))
	m.weight = m.weight*keep + 1
}

func (m *mean) value() float64 {
	v := m.sum / (m.weight + offsetShrink)
	return min(offsetMost, max(-offsetMost, v))
}

// Observe adds one outcome: the forecast as the bundle gave it (its p50
// before this correction) and what was measured. Unknown values are skipped.
func (o *Offset) Observe(forecast feature.Forecast, ttft, tpot feature.Seconds) {
	o.ttft.add(logRatio(ttft, forecast.TTFT.P50))
	o.tpot.add(logRatio(tpot, forecast.TPOT.P50))
}

// Forget keeps a quarter of the evidence; for when another bundle is served,
// which has errors of its own.
func (o *Offset) Forget() {
	for _, m := range []*mean{&o.ttft, &o.tpot} {
		m.sum /= 4
		m.weight /= 4
	}
}

// TTFT and TPOT are the corrections in log: multiply a forecast by exp of it.
func (o *Offset) TTFT() float64 { return o.ttft.value() }

// TPOT is the correction of TPOT; see TTFT.
func (o *Offset) TPOT() float64 { return o.tpot.value() }

// Coverage moves the p90 forecasts of one LLM until nine in ten outcomes stay
// below them. The zero value moves nothing.
type Coverage struct {
	ttft, tpot float64
}

// Observe adds one outcome and the corrected forecast it was given.
func (c *Coverage) Observe(corrected feature.Forecast, ttft, tpot feature.Seconds) {
	track(&c.ttft, logRatio(ttft, corrected.TTFT.P90))
	track(&c.tpot, logRatio(tpot, corrected.TPOT.P90))
}

// Overdue adds a request that still waits for its first token past the p90 it
// was given: a miss whatever it turns out to take. Its TTFT is not to be
// observed again.
func (c *Coverage) Overdue() { track(&c.ttft, math.Inf(1)) }

func track(offset *float64, miss float64) {
	switch {
	case math.IsNaN(miss):
		return
	case miss > 0:
		*offset += coverageGain * coverageGoal
	default:
		*offset -= coverageGain * (1 - coverageGoal)
	}
	*offset = min(offsetMost, max(-offsetMost, *offset))
}

// TTFT is what is added to the log of a p90 forecast of TTFT.
func (c *Coverage) TTFT() float64 { return c.ttft }

// TPOT is what is added to the log of a p90 forecast of TPOT.
func (c *Coverage) TPOT() float64 { return c.tpot }

func logRatio(actual, forecast feature.Seconds) float64 {
	if !(actual > 0) || !(forecast > 0) {
		return math.NaN()
	}
	return math.Log(float64(actual) / float64(forecast))
}

// Correct is what is added to the residuals of one endpoint's forecasts.
func Correct(o *Offset, c *Coverage) feature.Residual {
	return feature.Residual{
		TTFT: feature.LogQuantiles{P50: o.TTFT(), P90: o.TTFT() + c.TTFT()},
		TPOT: feature.LogQuantiles{P50: o.TPOT(), P90: o.TPOT() + c.TPOT()},
	}
}

// Plain takes a correction out of a forecast again: what the bundle and the
// prior alone say.
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
