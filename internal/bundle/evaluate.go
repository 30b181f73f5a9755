package bundle

import (
	"math"
	"sync"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
)

// Forest is one evaluated tree ensemble. rows holds n rows of feature.Width
// numbers, one after the other; the raw sums go to out[:n]. *forest.Forest is
// one.
type Forest interface {
	PredictBatch(rows []float64, n int, out []float64)
}

// Valid reports whether v can be forecast: both priors are positive and
// finite, and nothing is infinite. Unknown (NaN) is fine elsewhere.
func Valid(v *feature.Vector) bool {
	for _, x := range v {
		if math.IsInf(float64(x), 0) {
			return false
		}
	}
	return v[feature.ColumnPriorTTFT] > 0 && v[feature.ColumnPriorTPOT] > 0
}

// Evaluator makes forecasts from one bundle that has passed its check. It is
// safe for concurrent use and does not allocate once warm.
type Evaluator struct {
	heads   [Targets]Head
	support Support
	fitted  physics.Fitted
	seen    [2]interval // of the fitted prior in training, TTFT and TPOT
	scale   [2]float64  // of the shrinkage of TTFT and of TPOT residuals; see shrink
	forests [Targets]Forest
	scratch sync.Pool // of *scratch
}

// chunk is how many rows are evaluated at once.
const chunk = 128

type scratch struct {
	rows [chunk * feature.Width]float64
	raw  [Targets][chunk]float64
}

// Evaluator checks b and returns what evaluates it with the forests of
// package forest.
func (b *Bundle) Evaluator() (*Evaluator, error) { return b.EvaluatorWith(nil) }

// EvaluatorWith is Evaluator, with others for the forests that package forest
// does not evaluate. nil refuses them.
func (b *Bundle) EvaluatorWith(others Reader) (*Evaluator, error) {
	if err := b.checkFields(); err != nil {
		return nil, err
	}
	forests, err := b.parse(others)
	if err != nil {
		return nil, err
	}
	return b.EvaluatorOf(forests)
}

// EvaluatorOf is Evaluator with other forests, which must be those of
// b.Heads as another library reads them: they too must give the known
// answers.
func (b *Bundle) EvaluatorOf(forests [Targets]Forest) (*Evaluator, error) {
	if err := b.checkFields(); err != nil {
		return nil, err
	}
	e := newEvaluator(b, forests)
	if err := b.checkKnown(e); err != nil {
		return nil, err
	}
	return e, nil
}

func newEvaluator(b *Bundle, forests [Targets]Forest) *Evaluator {
	e := &Evaluator{heads: b.Heads, support: b.Support, fitted: b.Fitted, forests: forests}
	e.seen[0] = b.Support.priors(&b.Fitted.TTFT, feature.ColumnPriorTTFT)
	e.seen[1] = b.Support.priors(&b.Fitted.TPOT, feature.ColumnPriorTPOT)
	e.scale[0] = shrinkScale(b.Heads[TTFTP50], b.Heads[TTFTP90])
	e.scale[1] = shrinkScale(b.Heads[TPOTP50], b.Heads[TPOTP90])
	e.scratch.New = func() any { return new(scratch) }
	return e
}

// Evaluate writes the forecast of vectors[i] to out[i]: feature.NoForecast
// where the vector is not Valid. What a forest says is clipped to its head's
// range, shrunk where the fitted prior lies outside those of training, and p90
// raised to p50 where the heads cross. out must hold len(vectors) forecasts.
func (e *Evaluator) Evaluate(vectors []feature.Vector, out []feature.Forecast) {
	out = out[:len(vectors)]
	s := e.scratch.Get().(*scratch)
	defer e.scratch.Put(s)
	for len(vectors) > 0 {
		n := min(len(vectors), chunk)
		e.run(s, vectors[:n])
		for i := range n {
			out[i] = e.forecast(&vectors[i], s.at(i))
		}
		vectors, out = vectors[n:], out[n:]
	}
}

// answers returns the known answers on those of the vectors that have a
// forecast.
func (e *Evaluator) answers(vectors []feature.Vector) []KnownAnswer {
	var known []KnownAnswer
	s := new(scratch)
	for len(vectors) > 0 {
		n := min(len(vectors), chunk)
		e.run(s, vectors[:n])
		for i := range n {
			if f := e.forecast(&vectors[i], s.at(i)); f.Known() {
				known = append(known, KnownAnswer{Vector: vectors[i], Raw: s.at(i), Residual: f.Residual})
			}
		}
		vectors = vectors[n:]
	}
	return known
}

// run evaluates the four forests on at most chunk vectors.
func (e *Evaluator) run(s *scratch, vectors []feature.Vector) {
	rows := s.rows[:len(vectors)*feature.Width]
	for i := range vectors {
		vectors[i].Wide(rows[i*feature.Width:])
	}
	for t, f := range e.forests {
		f.PredictBatch(rows, len(vectors), s.raw[t][:len(vectors)])
	}
}

func (s *scratch) at(i int) [Targets]float64 {
	return [Targets]float64{s.raw[TTFTP50][i], s.raw[TTFTP90][i], s.raw[TPOTP50][i], s.raw[TPOTP90][i]}
}

// forecast turns what the forests gave for v into its forecast.
func (e *Evaluator) forecast(v *feature.Vector, raw [Targets]float64) feature.Forecast {
	for _, x := range raw {
		if x != x {
			return feature.NoForecast
		}
	}
	if !Valid(v) {
		return feature.NoForecast
	}
	fitted := e.fitted.Estimate(v)
	ttft := e.quantiles(TTFTP50, raw, e.shrink(0, fitted.TTFT))
	tpot := e.quantiles(TPOTP50, raw, e.shrink(1, fitted.TPOT))
	own := v.Prior()
	return feature.Forecast{
		TTFT:     apply(fitted.TTFT, ttft),
		TPOT:     apply(fitted.TPOT, tpot),
		Residual: feature.Residual{TTFT: from(own.TTFT, fitted.TTFT, ttft), TPOT: from(own.TPOT, fitted.TPOT, tpot)},
		Support:  e.support.of(v),
	}
}

// quantiles clips, damps, shrinks and shifts the raw residuals of targets p50
// and p50+1.
func (e *Evaluator) quantiles(p50 Target, raw [Targets]float64, shrink float64) feature.LogQuantiles {
	at := func(t Target) float64 {
		h := &e.heads[t]
		return h.Shift + shrink*(1-h.Damping)*min(max(raw[t], h.Low), h.High)
	}
	q := feature.LogQuantiles{P50: at(p50), P90: at(p50 + 1)}
	q.P90 = max(q.P50, q.P90)
	return q
}

// apply multiplies a prior by e to the residuals.
func apply(prior feature.Seconds, r feature.LogQuantiles) feature.Quantiles {
	p50 := prior * feature.Seconds(math.Exp(r.P50))
	return feature.Quantiles{P50: p50, P90: max(p50, prior*feature.Seconds(math.Exp(r.P90)))}
}

// from turns residuals over the fitted prior into those over the vector's own.
func from(own, fitted feature.Seconds, r feature.LogQuantiles) feature.LogQuantiles {
	if own == fitted {
		return r
	}
	more := math.Log(float64(fitted / own))
	return feature.LogQuantiles{P50: r.P50 + more, P90: r.P90 + more}
}

// shrink returns the factor in (0, 1] that a forest's output keeps: 1 while the
// fitted prior lies inside what training saw, 1/(1+u/scale) when it is e^u
// times outside.
//
// It depends on the prior alone, and so a load that leaves the support without
// moving the prior keeps its residual: shrinking that would let the forecast
// fall while the load grows. Along the prior, d ln(forecast) / d ln(prior) is
// at least 1 - |clip|/scale >= 0, because scale is at least the widest clip:
// the residual is given back never faster than the prior rises.
func (e *Evaluator) shrink(target int, prior feature.Seconds) float64 {
	u := e.seen[target].outside(float64(prior))
	if u == 0 {
		return 1
	}
	return 1 / (1 + u/e.scale[target])
}

// shrinkScale is the natural logarithm of the prior's distance at which half
// a residual is left: 1 (2.7 times outside), or the widest clip if wider.
func shrinkScale(heads ...Head) float64 {
	scale := 1.0
	for _, h := range heads {
		scale = max(scale, math.Abs(h.Low), math.Abs(h.High))
	}
	return scale
}
