package learn

import (
	"math"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
)

// effects are by how much each endpoint is slower than its vectors tell and than
// others of its class. A router finds that out by itself and corrects it, so that
// what is to be learned is what remains: else forests would tell endpoints apart
// by whatever number happens to, and know of one what the router has corrected
// already, or what it no longer is.
type effects struct {
	fitted physics.Fitted // beyond which they are
	own    map[string][2]line
	class  map[string][2]line // mean of its rows
}

const (
	// effectRows is how many rows of the newest weight an endpoint's effect is
	// held back by.
	effectRows = 10
	// mostEffect bounds it, in log: the router's own correction goes no further.
	mostEffect = 0.5

	effectRounds = 8    // of reweighted least squares
	effectNear   = 0.05 // errors below this share count alike
	effectUnit   = 0.1  // seconds: extras are of this order
	effectSteep  = 4.0  // most that an extra weighs, in forecasts
)

// line is how outcomes lie to their forecasts: scale times as long, and extra
// seconds (as the router's correction.Offset has it), less 1 and in effectUnits.
type line struct{ less, more float64 }

// steep is what an extra of effectUnit is of a forecast.
func steep(forecast float64) float64 { return min(effectUnit/forecast, effectSteep) }

// log is what the line adds to the logarithm of a forecast.
func (l line) log(forecast float64) float64 {
	return clip(math.Log(max(math.Exp(-mostEffect), 1+l.less+l.more*steep(forecast))), -mostEffect, mostEffect)
}

// observed is an outcome in forecasts.
type observed struct{ y, x, weight float64 }

// lineOf has the least mean of |line/forecast - outcome/forecast|, held back by
// effectRows.
func lineOf(rows []observed) line {
	var l line
	for range effectRounds {
		w, x, xx, y, xy := float64(effectRows), 0.0, effectRows/4.0, 0.0, 0.0
		for _, r := range rows {
			by := r.weight * effectNear / max(effectNear, math.Abs(r.y-1-l.less-l.more*r.x))
			w += by
			x += by * r.x
			xx += by * r.x * r.x
			y += by * (r.y - 1)
			xy += by * r.x * (r.y - 1)
		}
		d := w*xx - x*x
		l = line{(y*xx - x*xy) / d, (w*xy - x*y) / d}
	}
	return l
}

// effectsOf finds the effects in what a fitted prior leaves of samples.
func effectsOf(samples []Sample, weights []float64, fitted *physics.Fitted) effects {
	out := effects{fitted: *fitted, own: map[string][2]line{}, class: map[string][2]line{}}
	var endpoints []string // in order of appearance: sums must not depend on a map
	rows := map[string][]int{}
	for i := range samples {
		if name := samples[i].Endpoint; rows[name] == nil {
			endpoints = append(endpoints, name)
		}
		rows[samples[i].Endpoint] = append(rows[samples[i].Endpoint], i)
	}
	seen := map[string][2]float64{} // weight of a class so far
	for _, name := range endpoints {
		class := samples[rows[name][0]].Class
		own, mean, of := out.own[name], out.class[class], seen[class]
		for k, target := range [2]bundle.Target{bundle.TTFTP50, bundle.TPOTP50} {
			left, weight := leftOf(target, samples, rows[name], weights, fitted)
			if len(left) == 0 {
				continue
			}
			own[k] = lineOf(left)
			of[k] += weight
			mean[k].less += (own[k].less - mean[k].less) * weight / of[k]
			mean[k].more += (own[k].more - mean[k].more) * weight / of[k]
		}
		out.own[name], out.class[class], seen[class] = own, mean, of
	}
	return out
}

// leftOf is what a fitted prior leaves of those of the samples that rows lists
// and that have the target, and their weight. What a front door adds to every
// request counts for a TTFT alone.
func leftOf(target bundle.Target, samples []Sample, rows []int, weights []float64, fitted *physics.Fitted) (out []observed, weight float64) {
	for _, i := range rows {
		left := samples[i].over(target, fitted)
		if left != left {
			continue
		}
		o := observed{y: min(math.Exp(left), math.Exp(2*mostEffect)), weight: weights[i]}
		if target == bundle.TTFTP50 {
			o.x = steep(float64(fitted.Estimate(&samples[i].Vector).TTFT))
		}
		out, weight = append(out, o), weight+weights[i]
	}
	return out, weight
}

// of is what an endpoint adds to ln(actual/prior) beyond its class.
func (e *effects) of(s *Sample) (ttft, tpot float64) {
	own, known := e.own[s.Endpoint]
	if !known {
		return 0, 0
	}
	class, f := e.class[s.Class], e.fitted.Estimate(&s.Vector)
	of := func(k int, forecast feature.Seconds) float64 {
		return own[k].log(float64(forecast)) - class[k].log(float64(forecast))
	}
	return of(0, f.TTFT), of(1, f.TPOT)
}

// without is the samples less the effects of their endpoints.
func (e effects) without(samples []Sample) []Sample {
	out := make([]Sample, len(samples))
	for i, s := range samples {
		ttft, tpot := e.of(&s)
		s.TTFT, s.TPOT = s.TTFT-ttft, s.TPOT-tpot
		out[i] = s
	}
	return out
}

// alone reports whether every class has but one endpoint.
func alone(samples []Sample) bool {
	of := map[string]string{}
	for i := range samples {
		class, name := samples[i].Class, samples[i].Endpoint
		if other, known := of[class]; known && other != name {
			return false
		}
		of[class] = name
	}
	return true
}
