package policy

import "math"

// Of predictor-blend: what the published pipeline weighs the latencies by, and
// the greatest weight an endpoint has in its draw; the least is 1 (llm-d's
// predicted-latency scheduling: ttftWeight 0.8, tpotWeight 0.2, weights of 100).
const (
	blendTTFT   = 0.8
	blendTPOT   = 0.2
	blendWeight = 100
)

// predictorBlend is the published predictor pipeline: forecast p90 TTFT and
// TPOT, each scaled to between 0 at the least and 1 at the greatest of the
// candidates, are blended, and an endpoint is drawn with a whole weight that
// falls from 100 to 1 as the blend rises. A latency that is alike everywhere
// leaves its part to the other. There is no affinity filter and no exploration:
// all it does is drawn. The cost is the blend.
func predictorBlend(_ *Input, out *Choice) {
	out.forecastOnly()
	var ttft, tpot scale
	for _, i := range out.eligible {
		ttft.take(float64(out.Forecasts[i].TTFT.P90))
		tpot.take(float64(out.Forecasts[i].TPOT.P90))
	}
	first, second := blendTTFT, blendTPOT
	switch {
	case !ttft.wide():
		first, second = 0, 1
	case !tpot.wide():
		first, second = 1, 0
	}
	total := 0.0
	for _, i := range out.eligible {
		blend := first*ttft.of(float64(out.Forecasts[i].TTFT.P90)) + second*tpot.of(float64(out.Forecasts[i].TPOT.P90))
		out.Costs[i] = blend
		out.Probabilities[i] = math.Floor((1-blend)*(blendWeight-1)) + 1
		total += out.Probabilities[i]
	}
	draw := out.rng.Float64() * total
	out.Index = out.eligible[len(out.eligible)-1]
	for _, i := range out.eligible {
		if draw < out.Probabilities[i] {
			out.Index = i
			break
		}
		draw -= out.Probabilities[i]
	}
	for _, i := range out.eligible {
		out.Probabilities[i] /= total
	}
	out.Reason = Reason{Code: Drawn, Cost: out.Costs[out.Index], Probability: out.Probabilities[out.Index]}
}

// scale maps the values it took to 0 to 1. The zero value took none.
type scale struct {
	least, most float64
	some        bool
}

func (s *scale) take(v float64) {
	if !known(v) {
		return
	}
	if !s.some {
		*s = scale{v, v, true}
		return
	}
	s.least, s.most = min(s.least, v), max(s.most, v)
}

// wide reports whether the values differ.
func (s *scale) wide() bool { return s.most > s.least }

// of is 1 for a value that is unknown, as for the greatest.
func (s *scale) of(v float64) float64 {
	if !known(v) {
		return 1
	}
	if !s.wide() {
		return 0
	}
	return (v - s.least) / (s.most - s.least)
}
