package offpolicy

import "math"

// sequence is a confidence sequence of the effect: an interval that holds at
// every moment of a log at once with 95 %, however often one looks and whenever
// one stops.
//
// It is the empirical Bernstein one with a predictable plug-in
// (Waudby-Smith and Ramdas 2024, theorem 2), in the form for values bounded from
// below alone (Fan, Grama and Liu 2015; Waudby-Smith and others 2022, "Anytime-valid
// off-policy inference for contextual bandits"), of DR with forecasts cut
// where the weight is large, so that no correction is below -cut. A lower bound
// of the value and one of most - value give both ends, each with 2.5 %. No
// weight needs a bound, and what has no example makes it wider, not wrong.
//
// It assumes that values lie between 0 and most, that the probabilities are
// right, and it is of the mean, over the decisions, of what is expected of each
// given those before it; early ones weigh more. It assumes no independence and
// no distribution.
type sequence struct {
	most  float64
	sides [2]side // of value, and of most - value
	idle  bool    // something did nothing: of that no value is told
}

// cut is the most that a weighted forecast is believed, as a share of most.
const cut = 4

// scale is by how much a term is divided, so that what it may lie below its
// guess is at most 1: cut and 1 of the value that came, and 1 for the guess.
const scale = cut + 2

// level is -ln of the share of sequences that may miss on one side.
var level = -math.Log(0.05 / 2)

// side is a lower bound.
type side struct {
	n        float64
	sum      float64 // of terms, for the guess
	spread   float64 // of squared errors of the guess
	tilt     float64 // of lambdas
	tilted   float64 // of lambda times term
	variance float64 // of psi(lambda) times squared error
}

func newSequence(most float64) sequence { return sequence{most: most} }

func (q *sequence) add(s *Sample) {
	target := 0.0
	for i := range s.Actions {
		target += s.Actions[i].Target
	}
	if s.Chosen < 0 || target < 1-1e-6 {
		q.idle = true
		return
	}
	for k := range q.sides {
		of := func(v float64) float64 {
			v = min(max(v/q.most, 0), 1)
			if k == 1 {
				return 1 - v
			}
			return v
		}
		term := 0.0
		for i := range s.Actions {
			a := &s.Actions[i]
			if a.Target > 0 && a.Logged > 0 {
				term += a.Target * min(of(a.Model), cut/a.weight())
			}
		}
		a := &s.Actions[s.Chosen]
		came := of(s.Value)
		if w := a.weight(); w > 0 {
			term += w * (came - min(of(a.Model), cut/w))
		}
		q.sides[k].add((term - came) / scale)
	}
}

func (d *side) add(term float64) {
	guess := 0.0
	if d.n > 0 {
		guess = min(d.sum/d.n, 1.0/scale)
	}
	d.n++
	spread := (0.25 + d.spread) / d.n
	lambda := min(0.5, math.Sqrt(2*level/(spread*d.n*math.Log(1+d.n))))
	miss := (term - guess) * (term - guess)
	d.sum += term
	d.spread += miss
	d.tilt += lambda
	d.tilted += lambda * term
	d.variance += miss * (-math.Log(1-lambda) - lambda)
}

// bound is the lower bound, as a share of most; -Inf of nothing.
func (d *side) bound() float64 {
	if d.tilt == 0 {
		return math.Inf(-1)
	}
	return scale * (d.tilted - level - d.variance) / d.tilt
}

// Sequence is the interval of a confidence sequence of the effect (target - what
// came) on the decisions that were left to chance, false where there is none:
// without such decisions, and where one of the policies may do nothing.
func (e *Estimators) Sequence() (low, high float64, ok bool) {
	q := &e.sequence
	if q.idle || q.sides[0].n == 0 {
		return 0, 0, false
	}
	return q.most * max(-1, q.sides[0].bound()), -q.most * max(-1, q.sides[1].bound()), true
}
