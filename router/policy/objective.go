package policy

import (
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
)

// objectives leaves, where the request has latency objectives and the forecast
// p90 of some eligible candidates meets all of them, only those. Where none
// does, it notes by how much the best of them misses. An objective that is not
// a positive number is none.
func (out *Choice) objectives(in *Input) {
	ttft, tpot := in.Request.SLOTTFT, in.Request.SLOTPOT
	if !(ttft > 0) && !(tpot > 0) {
		return
	}
	out.Reason.Objective, out.Reason.Of = true, len(out.eligible)
	meets, warm := out.pool[:0], 0
	excess, late := math.Inf(1), feature.Seconds(0)
	for _, i := range out.eligible {
		f := &out.Forecasts[i]
		worst := 0.0 // p90 over objective, the worse of the two
		if ttft > 0 {
			worst = float64(f.TTFT.P90 / ttft)
		}
		if tpot > 0 {
			worst = max(worst, float64(f.TPOT.P90/tpot))
		}
		switch {
		case worst <= 1:
			meets = append(meets, i)
			if Sticky(in, i) {
				warm++
			}
		case worst-1 < excess:
			excess = worst - 1
			if late = 0; ttft > 0 {
				late = max(0, f.TTFT.P90-ttft)
			}
		}
	}
	out.Reason.Meeting = len(meets)
	if len(meets) == 0 {
		out.Reason.Excess, out.RetryAfter = excess, late
		return
	}
	out.left = warm == 0 && slices.ContainsFunc(out.eligible, func(i int) bool { return Sticky(in, i) })
	out.eligible = append(out.eligible[:0], meets...)
	out.pool = meets[:0]
}

// drawShed draws whether a request that may be shed is, where no candidate
// meets its objectives. Its probability rises from 0 with the share by which
// the best p90 exceeds its objective, and reaches 1 at Settings.ShedExcess: a
// little over, a few are turned away, and the rest need not be.
func (out *Choice) drawShed(in *Input) bool {
	r := &out.Reason
	if !(in.Request.Priority < 0) || !r.Objective || r.Meeting > 0 || math.IsInf(r.Excess, 1) {
		return false
	}
	r.Sheddable = true
	out.ShedProbability = 1
	if full := in.Settings.ShedExcess; r.Excess < full {
		out.ShedProbability = r.Excess / full
	}
	return out.rng.Float64() < out.ShedProbability
}

// shed takes the probability that the request is shed from all candidates, and
// the request from the chosen one when it is.
func (out *Choice) shed(drawn bool) {
	p := out.ShedProbability
	if p == 0 {
		return
	}
	for i := range out.Probabilities {
		out.Probabilities[i] *= 1 - p
	}
	out.Reason.ShedProbability = p
	if drawn {
		out.Index, out.Shed, out.Explored = -1, true, false
		out.Reason.Code, out.Reason.Explored = Shed, false
	}
}
