package simulate

import (
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
)

// equation says that measured seconds are parameters times work.
type equation struct {
	at      float64 // of the request, in seconds of the log
	kind    kind
	seconds float64
	work    work
}

// kind is what was measured. Answers are explained within a percent or less, and
// first tokens, before which a line of others may stand, within ten.
type kind uint8

const (
	untilFirst kind = iota
	untilLast
	kinds
)

// theta are the parameters of an endpoint, in seconds.
type theta [parameters]float64

// profile is the engine that has them.
func (t *theta) profile(class physics.Profile, l limits) physics.Profile {
	class.Coefficients = physics.Coefficients{A: t[perStep], B: t[perPrefill], C: t[perAttended], D: t[perDecoding], E: t[perRead]}
	class.Overhead = feature.Seconds(t[outside])
	if l.batched > 0 {
		class.MaxBatchedTokens = int(l.batched)
	}
	if l.sequences > 0 {
		class.MaxNumSeqs = int(l.sequences)
	}
	if l.cache > 0 {
		class.KVCapacityTokens = int(l.cache)
	}
	return class
}

// thetaOf are the parameters of a profile.
func thetaOf(c physics.Coefficients, overhead float64) theta {
	return theta{c.A, c.B, c.C, c.D, c.E, overhead}
}

const (
	// doubted is from how many times the typical relative error of its kind an
	// equation counts less (Huber 1964).
	doubted = 1.5
	// surest is the least error that a kind is taken to have.
	surest = 0.005
	// together is how many equations tell as much as one that stands alone: those of
	// requests that ran side by side err alike.
	together = 10
	// reach bounds a parameter: so many times what the fit began with, either way.
	reach = 4.0
	// mostOutside is the longest that a request spends outside, in seconds.
	mostOutside = 2.0
	// unitOutside is what is expected to lie outside, for its own size.
	unitOutside = 0.05

	// fewestOf is from how many answers on they alone tell a step's time.
	fewestOf = 30

	reweighed = 8
	sweeps    = 3000
)

// solve finds the parameters that explain the equations best, each drawn to where it
// is expected as if that were known within a share of it. A step's time is found
// from answers alone, which tell it within a percent: what lies before a first
// token lasts for reasons that no step model has.
func solve(equations []equation, expected theta, within float64) theta {
	answers := make([]equation, 0, len(equations))
	for i := range equations {
		if equations[i].kind == untilLast {
			answers = append(answers, equations[i])
		}
	}
	if len(answers) < fewestOf {
		return least(equations, expected, expected, within, func(int) bool { return true })
	}
	x := least(answers, expected, expected, within, func(k int) bool { return k != outside })
	return least(equations, expected, x, within, func(k int) bool { return k == outside || k == perPrefill || k == perAttended })
}

// least minimises the squares of relative errors, of which large ones count less,
// over the parameters that are free. The others stay.
func least(equations []equation, expected, x theta, within float64, free func(k int) bool) theta {
	unit := unitsOf(&expected)
	scratch := make([]float64, 0, len(equations))
	for range reweighed {
		var errs [kinds]float64
		for k := range kinds {
			errs[k] = x.errs(equations, k, scratch)
		}
		var h [parameters][parameters]float64
		var g [parameters]float64
		for i := range equations {
			q := &equations[i]
			e := errs[q.kind]
			w := 1 / (q.seconds * q.seconds * e * e * together)
			if off := q.off(&x); off > doubted*e {
				w *= doubted * e / off
			}
			for k := range x {
				a := w * q.work[k] * unit[k]
				g[k] += a * q.seconds
				for j := range k + 1 {
					h[k][j] += a * q.work[j] * unit[j]
				}
			}
		}
		pull := 1 / (within * within)
		for k := range x {
			h[k][k] += pull
			g[k] += pull * expected[k] / unit[k]
			for j := range k {
				h[j][k] = h[k][j]
			}
		}
		x = descend(&h, &g, &x, &unit, free)
	}
	return x
}

// off is the relative error of an equation, either way.
func (q *equation) off(x *theta) float64 {
	says := 0.0
	for k := range x {
		says += x[k] * q.work[k]
	}
	return math.Abs(says-q.seconds) / q.seconds
}

// errs is the typical relative error of a kind: of normal ones the standard
// deviation.
func (t *theta) errs(equations []equation, of kind, scratch []float64) float64 {
	all := scratch[:0]
	for i := range equations {
		if equations[i].kind == of {
			all = append(all, equations[i].off(t))
		}
	}
	if len(all) == 0 {
		return 1
	}
	slices.Sort(all)
	return max(surest, 1.4826*all[len(all)/2])
}

// unitsOf are the sizes that parameters are expected to have. One that is expected
// to be nothing may still be a little: what is 2 % of a step with 4 sequences that
// read 10,000 tokens each, or of a prefill of that length.
func unitsOf(expected *theta) theta {
	unit := *expected
	unit[outside] = unitOutside
	for k, least := range map[int]float64{
		perAttended: 0.02 * unit[perPrefill] / 10_000, perDecoding: 0.02 * unit[perStep] / 4, perRead: 0.02 * unit[perStep] / 40_000,
	} {
		if unit[k] == 0 {
			unit[k] = max(least, 1e-12)
		}
	}
	return unit
}

// descend minimises the quadratic form, one parameter after the other, inside the
// bounds.
func descend(h *[parameters][parameters]float64, g *[parameters]float64, from, unit *theta, free func(k int) bool) theta {
	var y theta // in units
	for k := range y {
		y[k] = from[k] / unit[k]
	}
	for range sweeps {
		for k := range y {
			if !free(k) {
				continue
			}
			rest := g[k]
			for j := range y {
				if j != k {
					rest -= h[k][j] * y[j]
				}
			}
			low, high := 1/reach, reach
			switch k {
			case outside:
				low, high = 0, mostOutside/unitOutside
			case perAttended, perDecoding, perRead: // some engines hardly have these
				low = 0
			}
			y[k] = bounded(rest/h[k][k], low, high)
		}
	}
	for k := range y {
		y[k] *= unit[k]
	}
	return y
}

func bounded(v, least, most float64) float64 { return min(most, max(least, v)) }
