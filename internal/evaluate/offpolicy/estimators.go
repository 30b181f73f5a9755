package offpolicy

import (
	"fmt"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
)

// The estimators, in the order in which they are told.
const (
	// DirectAll is the direct method on all samples: the mean forecast of what
	// the target does. The others are of those samples alone that were left to
	// chance.
	DirectAll = "DM, all"
	Direct    = "DM"
	// IPS weighs what came by how much more often the target does it
	// (Horvitz and Thompson 1952), SNIPS divides by the sum of the weights.
	IPS   = "IPS"
	SNIPS = "SNIPS"
	// DR is the direct method, corrected by the weighted errors of the forecast
	// (Dudík, Langford and Li 2011).
	DR = "DR"
	// SwitchDR is DR without the corrections whose weight exceeds a threshold
	// (Wang, Agarwal and Dudík 2017).
	SwitchDR = "switch-DR"
)

// An Estimate is what one estimator says of the target, beside what came on the
// same samples. The direct method is held against forecasts of what was done, so
// that what is wrong with all forecasts alike is not taken for an effect. Intervals are 95 % ones of a bootstrap of blocks of time.
type Estimate struct {
	Name     string            `json:"name"`
	Samples  int64             `json:"samples"`
	Target   evaluate.Interval `json:"target"`
	Logged   feature.Number    `json:"logged"`             // mean of what came; of the direct method, of what was forecast of it
	Effect   evaluate.Interval `json:"effect"`             // target - logged
	Relative evaluate.Interval `json:"relative"`           // target/logged - 1
	Withheld string            `json:"withheld,omitempty"` // why there are no numbers, or none to be believed
}

// Estimators gathers samples and estimates the mean value of the target policy
// on them. The zero value is not ready: see NewEstimators.
type Estimators struct {
	most    float64
	bins    bins
	overlap overlap
	choice  threshold
	sequence
	samples, certain int64
}

// NewEstimators returns one without samples. Values lie between 0 and most.
func NewEstimators(most float64) *Estimators {
	return &Estimators{most: most, sequence: newSequence(most)}
}

// Add adds a sample. Samples come in order of time. One whose numbers make no
// sense is an error and not added.
func (e *Estimators) Add(s *Sample) error {
	if err := s.check(); err != nil {
		return err
	}
	if s.Chosen >= 0 && !(s.Value >= 0 && s.Value <= e.most) {
		return fmt.Errorf("the value is %v: want 0 to %v", s.Value, e.most)
	}
	var x sums
	for i := range s.Actions {
		if a := &s.Actions[i]; a.Target > 0 {
			x[allServed] += a.Target
			x[allModel] += a.Target * a.Model
		}
	}
	if s.Chosen >= 0 {
		x[allValue], x[allValued], x[allForecast] = s.Value, 1, s.Actions[s.Chosen].Model
	}
	e.samples++
	if s.deterministic() {
		e.certain++
		e.bins.add(s.At, &x)
		return nil
	}
	x[served], x[model], x[value], x[valued], x[forecast] = x[allServed], x[allModel], x[allValue], x[allValued], x[allForecast]
	if s.Chosen >= 0 {
		a := &s.Actions[s.Chosen]
		w := a.weight()
		x[ips], x[weight], x[squared], x[correct] = w*s.Value, w, w*w, w*(s.Value-a.Model)
		for k := range thresholds {
			if w <= limit(k) {
				x[switched+k] = x[correct]
			}
		}
	}
	e.bins.add(s.At, &x)
	e.overlap.add(s)
	e.choice.add(s, &x)
	e.sequence.add(s)
	return nil
}

// ratio is an estimate as two ratios of sums: of the target and of what came.
type ratio struct{ target, targetOf, logged, loggedOf float64 }

func (r *ratio) add(o *ratio) {
	r.target += o.target
	r.targetOf += o.targetOf
	r.logged += o.logged
	r.loggedOf += o.loggedOf
}

// each numbers are what a bootstrap draws: target, effect, relative effect.
func (r *ratio) each() [3]float64 {
	target, logged := r.target/r.targetOf, r.logged/r.loggedOf
	return [3]float64{target, target - logged, target/logged - 1}
}

// estimator is how an estimate follows from sums.
type estimator struct {
	name   string
	target func(*sums) (of, all float64)
	logged func(*sums) (of, all float64)
	every  bool // of all samples
}

func (e *estimator) ratio(s *sums) (r ratio) {
	r.target, r.targetOf = e.target(s)
	r.logged, r.loggedOf = e.logged(s)
	return r
}

// estimators are all of them, with switch-DR at a threshold.
func estimators(threshold int) []estimator {
	came := func(s *sums) (float64, float64) { return s[value], s[valued] }
	return []estimator{
		{DirectAll, func(s *sums) (float64, float64) { return s[allModel], s[allServed] },
			func(s *sums) (float64, float64) { return s[allForecast], s[allValued] }, true},
		{Direct, func(s *sums) (float64, float64) { return s[model], s[served] },
			func(s *sums) (float64, float64) { return s[forecast], s[valued] }, false},
		{IPS, func(s *sums) (float64, float64) { return s[ips], s[served] }, came, false},
		{SNIPS, func(s *sums) (float64, float64) { return s[ips], s[weight] }, came, false},
		{DR, func(s *sums) (float64, float64) { return s[model] + s[correct], s[served] }, came, false},
		{SwitchDR, func(s *sums) (float64, float64) { return s[model] + s[switched+threshold], s[served] }, came, false},
	}
}

// Estimates are those of all estimators. The same samples and seed give the
// same. Where there is nothing to estimate from all numbers are unknown and
// Withheld says why; IPS and SNIPS are withheld too where the log has no
// example of more than 5 % of what the target does, for they would leave that
// out.
func (e *Estimators) Estimates(seed uint64) []Estimate {
	total := e.bins.total()
	var out []Estimate
	for _, m := range estimators(e.choice.best()) {
		x := Estimate{Name: m.name, Samples: e.samples}
		chance := e.samples - e.certain
		if !m.every {
			x.Samples = chance
		}
		none := feature.Number(feature.Unknown)
		unknown := evaluate.Interval{Mean: none, Low: none, High: none}
		x.Target, x.Effect, x.Relative, x.Logged = unknown, unknown, unknown, none
		r := m.ratio(&total)
		missing := e.overlap.missingShare()
		weighs := m.name == IPS || m.name == SNIPS
		switch {
		case x.Samples == 0:
			x.Withheld = "no decision was left to chance"
		case weighs && missing > mostMissing:
			x.Withheld = fmt.Sprintf("the log has no example of %.1f %% of what the target does", 100*missing)
		case weighs && total[weight] == 0:
			x.Withheld = "nothing that was done is ever done by the target"
		case !(r.targetOf > 0):
			x.Withheld = "the target does nothing"
		case !(r.loggedOf > 0):
			x.Withheld = "nothing was done"
		default:
			x.Logged = feature.Number(r.logged / r.loggedOf)
			b := bootstrap(&e.bins, &m, seed)
			x.Target, x.Effect, x.Relative = b[0], b[1], b[2]
		}
		out = append(out, x)
	}
	return out
}

// mostMissing is how much of what the target does may be without an example for
// those estimators that leave it out.
const mostMissing = 0.05

// Samples is how many samples there are, and how many of them deterministic.
func (e *Estimators) Samples() (all, deterministic int64) { return e.samples, e.certain }

// EffectiveSamples is how many samples without weights would tell as much:
// (sum of weights)^2 / sum of squared weights (Kish 1965).
func (e *Estimators) EffectiveSamples() float64 {
	t := e.bins.total()
	if t[squared] == 0 {
		return 0
	}
	return t[weight] * t[weight] / t[squared]
}

// Switch is the threshold of switch-DR; +Inf where no weight exceeds it.
func (e *Estimators) Switch() float64 { return limit(e.choice.best()) }

// Logged is the mean of what came, of all samples, with its interval.
func (e *Estimators) Logged(seed uint64) evaluate.Interval {
	came := func(s *sums) (float64, float64) { return s[allValue], s[allValued] }
	m := estimator{target: came, logged: came}
	return bootstrap(&e.bins, &m, seed)[0]
}
