package offpolicy

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
)

// Options say what is judged, and by what.
type Options struct {
	Target   Target
	Quantity Quantity
	// Longest is what a latency counts at most, and what a request counts that
	// its endpoint gave no answer to; 0: Quantity.Longest().
	Longest feature.Seconds
	// SLOTTFT and SLOTPOT are the objectives of requests that give none; of
	// Attained alone. 0 is none.
	SLOTTFT, SLOTPOT feature.Seconds
	// Priced adds to each latency what predicted counts a request to cost
	// others there: see policy.Terms. Of TTFT and E2E alone.
	Priced bool
}

// Evaluation makes samples of logged decisions, each decided again as the
// target would, and estimates. Make it with NewEvaluation.
type Evaluation struct {
	options Options
	measure measure

	main        *Estimators
	least, most *Estimators // with requests that were given up at their extremes

	llm             string
	from, to        time.Time
	decisions       int64
	leftOut         map[LeftOut]int64
	failed, cut     int64 // counted as, or cut to, the longest
	idle            int64 // nothing was chosen
	judged          int64 // decided again
	unlike, lacking int64 // of those, otherwise than they were; without what the policy reads
	lackingPolicy   string
	loggedBy        map[string]int64
	targetBy        map[string]int64
	shed            float64 // probability of the target, summed
	change          settingsChange

	remade  remake
	again   policy.Choice
	choice  policy.Choice
	pricing policy.Choice
	actions []Action
}

// settingsChange is the settings before and after, of the last decision.
type settingsChange struct{ before, after policy.Settings }

// NewEvaluation returns one without decisions. Errors name what can't be judged.
func NewEvaluation(o Options) (*Evaluation, error) {
	if err := o.Target.check(); err != nil {
		return nil, err
	}
	if err := CheckQuantity(o.Quantity); err != nil {
		return nil, err
	}
	if o.Priced && o.Quantity != TTFT && o.Quantity != E2E {
		return nil, fmt.Errorf("what a request costs others is in seconds of %s or %s, not of %s", TTFT, E2E, o.Quantity)
	}
	m := measure{quantity: o.Quantity, longest: float64(o.Longest), defaults: objectives{o.SLOTTFT, o.SLOTPOT}}
	if o.Quantity == Attained || m.longest == 0 {
		m.longest = float64(o.Quantity.Longest())
	}
	if !(m.longest > 0) || math.IsInf(m.longest, 0) {
		return nil, fmt.Errorf("the longest latency that counts is %v s: want a positive one", m.longest)
	}
	most := m.longest
	if o.Priced {
		most *= 2 // what it costs others is cut alike
	}
	return &Evaluation{
		options: o, measure: m,
		main: NewEstimators(most), least: NewEstimators(most), most: NewEstimators(most),
		leftOut: map[LeftOut]int64{}, loggedBy: map[string]int64{}, targetBy: map[string]int64{},
	}, nil
}

// clockSlack is how far a decision may lie before the one behind which it
// stands: what several routers of one log hand in is not ordered finer.
const clockSlack = time.Second

// Add adds a decision with its last attempt, in order of time; an outcome
// whose Attempt is 0 is none. Errors: a decision of another schema, or one that
// stands behind a later one.
func (e *Evaluation) Add(d *feature.Decision, o *feature.Outcome) error {
	if d.Schema != feature.Schema {
		return fmt.Errorf("a decision of %s has vectors of schema %s and this build reads %s: judge it with the version that logged it, or leave it out with a shorter --window",
			d.DecidedAt.UTC().Format(time.RFC3339), d.Schema, feature.Schema)
	}
	if d.DecidedAt.Before(e.to.Add(-clockSlack)) {
		return fmt.Errorf("a decision of %s stands behind one of %s: a clock jumped back, or files are not in order of time",
			d.DecidedAt.UTC().Format(time.RFC3339Nano), e.to.UTC().Format(time.RFC3339Nano))
	}
	if e.from.IsZero() {
		e.from, e.llm = d.DecidedAt, d.LLM
	}
	if d.DecidedAt.After(e.to) {
		e.to = d.DecidedAt
	}
	e.decisions++
	why, err := e.add(d, o)
	if err != nil {
		return fmt.Errorf("decision %s: %w", d.ID, err)
	}
	if why != "" {
		e.leftOut[why]++
	}
	return nil
}

func (e *Evaluation) add(d *feature.Decision, o *feature.Outcome) (LeftOut, error) {
	if !d.Complete || len(d.States) == 0 || len(d.Candidates) == 0 {
		return Incomplete, nil
	}
	in, err := policy.Replay(d)
	if err != nil {
		return OldVersion, nil
	}
	if !chanced(d) {
		return NoChance, nil
	}
	aim := e.measure.of(d)
	v, failed, why := e.measure.came(d, o, aim)
	if why != "" && why != Aborted {
		return why, nil
	}
	s, unknown, err := e.sample(d, in, aim)
	if unknown != "" || err != nil {
		return unknown, err
	}
	s.Value = v
	if why == Aborted {
		low, high := e.measure.extremes(o)
		return why, errors.Join(e.addTo(e.least, s, low), e.addTo(e.most, s, high))
	}
	switch {
	case d.Chosen == "":
		e.idle++
	case failed:
		e.failed++
	case v == e.measure.longest && e.measure.quantity != Attained:
		e.cut++
	}
	return "", errors.Join(e.addTo(e.main, s, v), e.addTo(e.least, s, v), e.addTo(e.most, s, v))
}

// chanced reports whether a decision tells the probabilities it was made with.
func chanced(d *feature.Decision) bool {
	sum, chosen := 0.0, d.Chosen == ""
	for i := range d.Candidates {
		p := d.Candidates[i].Probability
		if !(p >= 0) {
			return false
		}
		if d.Candidates[i].Endpoint == d.Chosen && p > 0 {
			chosen = true
		}
		sum += p
	}
	return chosen && sum <= 1+1e-6
}

// addTo adds a sample of that value, with its price.
func (e *Evaluation) addTo(to *Estimators, s Sample, v float64) error {
	s.Value = v
	if s.Chosen >= 0 {
		s.Value += e.price(s.Chosen)
	}
	return to.Add(&s)
}

// sample decides again. Its actions are the candidates and, where objectives
// are judged, to turn the request away.
func (e *Evaluation) sample(d *feature.Decision, in *policy.Input, aim objectives) (Sample, LeftOut, error) {
	s := Sample{At: d.DecidedAt, Chosen: -1}
	if err := policy.Decide(in, &e.again); err != nil {
		return s, "", err
	}
	unlike := policy.Same(d, in, &e.again) != nil
	before := in.Settings
	e.options.Target.apply(in, d, &e.remade)
	if in.Forecasts && !policy.DecidesAlike(d.PolicyVersion, in.Policy) {
		return s, OldVersion, nil // the log lacks what the target reads now
	}
	if unlike {
		e.unlike++
	}
	e.change.before, e.change.after = before, in.Settings
	e.judged++
	if lacks(in) {
		e.lacking++
		e.lackingPolicy = in.Policy
	}
	if err := policy.Decide(in, &e.choice); err != nil {
		return s, "", err
	}
	e.loggedBy[d.Policy]++
	e.targetBy[e.choice.Policy]++
	e.shed += e.choice.ShedProbability
	if err := e.decidePrices(in); err != nil {
		return s, "", err
	}

	e.actions = e.actions[:0]
	left := 1.0
	for i := range in.Candidates {
		a := Action{Logged: d.Candidates[i].Probability, Target: e.choice.Probabilities[i]}
		chosen := d.Chosen != "" && d.Candidates[i].Endpoint == d.Chosen
		if chosen {
			s.Chosen = i
		}
		left -= a.Logged
		if a.Target > 0 || chosen {
			m, ok := e.model(in, i, aim)
			if !ok {
				return s, NoModel, nil
			}
			a.Model = m
		}
		e.actions = append(e.actions, a)
	}
	if e.measure.quantity == Attained {
		if d.Chosen == "" {
			s.Chosen = len(e.actions)
		}
		if left < 1e-9 {
			left = 0
		}
		e.actions = append(e.actions, Action{Logged: left, Target: e.choice.ShedProbability})
	}
	s.Actions = e.actions
	return s, "", nil
}

// model is what is forecast of candidate i: by its forecast, else by its prior.
func (e *Evaluation) model(in *policy.Input, i int, aim objectives) (float64, bool) {
	f := e.choice.Forecasts[i]
	if !f.Known() {
		p := in.Candidates[i].Prior(&in.Request)
		f.TTFT, f.TPOT = feature.Quantiles{P50: p.TTFT, P90: p.TTFT}, feature.Quantiles{P50: p.TPOT, P90: p.TPOT}
	}
	v, ok := e.measure.forecast(&f, in.Request.ExpectedOutputTokens, aim)
	return v + e.price(i), ok
}

// decidePrices finds what the request costs others on every candidate, by the
// forecasts that there are, else by the prior.
func (e *Evaluation) decidePrices(in *policy.Input) error {
	if !e.options.Priced {
		return nil
	}
	for i := range in.Candidates {
		if c := &in.Candidates[i]; !c.Residual.Known() {
			c.Residual, c.Correction = feature.Residual{}, feature.Residual{}
		}
	}
	name, forecasts, canary := in.Policy, in.Forecasts, in.Canary
	in.Policy, in.Forecasts, in.Canary = policy.Predicted, true, 0
	err := policy.Decide(in, &e.pricing)
	for i := range in.Candidates {
		t := e.pricing.Terms(in, i)
		e.pricing.Costs[i] = float64(t.Others())
	}
	in.Policy, in.Forecasts, in.Canary = name, forecasts, canary
	return err
}

// price is what the request costs others on candidate i, cut as latencies are; 0
// where it is not asked for or not known.
func (e *Evaluation) price(i int) float64 {
	if !e.options.Priced || i >= len(e.pricing.Costs) || !(e.pricing.Costs[i] > 0) {
		return 0
	}
	return min(e.pricing.Costs[i], e.measure.longest)
}
