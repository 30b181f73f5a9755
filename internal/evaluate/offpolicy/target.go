package offpolicy

import (
	"fmt"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/policy"
)

// A Target is the policy that is judged: what is changed of the decisions as
// they were made. The zero value changes nothing.
type Target struct {
	Policy   string                 // "": the one that was configured
	Fallback string                 // "": as logged
	Change   func(*policy.Settings) // nil: as logged

	// Forecaster forecasts every candidate anew, from the vectors that were
	// logged; what a router learned online of another bundle is left out. nil:
	// forecasts as they were.
	Forecaster Forecaster
}

// A Forecaster makes forecasts of vectors: out[i] of vectors[i], and NoForecast
// of what it can't. *bundle.Evaluator is one.
type Forecaster interface {
	Evaluate(vectors []feature.Vector, out []feature.Forecast)
}

// Prior forecasts what the analytic prior says, without a residual.
type Prior struct{}

// Evaluate repeats the priors that the vectors hold.
func (Prior) Evaluate(vectors []feature.Vector, out []feature.Forecast) {
	for i := range vectors {
		p := vectors[i].Prior()
		out[i] = feature.Forecast{
			TTFT: feature.Quantiles{P50: p.TTFT, P90: p.TTFT}, TPOT: feature.Quantiles{P50: p.TPOT, P90: p.TPOT}, Support: 1,
		}
		if !(p.TTFT > 0) || !(p.TPOT > 0) {
			out[i] = feature.NoForecast
		}
	}
}

func (t *Target) check() error {
	if t.Policy != "" {
		if err := policy.Check(t.Policy); err != nil {
			return err
		}
	}
	if t.Fallback != "" {
		return policy.CheckFallback(t.Fallback)
	}
	return nil
}

// remake holds the memory of making decisions into what the target sees.
type remake struct {
	vectors   []feature.Vector
	forecasts []feature.Forecast
}

// apply turns what was decided on into what the target decides on.
func (t *Target) apply(in *policy.Input, d *feature.Decision, r *remake) {
	if t.Policy != "" {
		in.Policy, in.Canary = t.Policy, 0
	}
	if t.Fallback != "" {
		in.Fallback = t.Fallback
	}
	if t.Change != nil {
		t.Change(&in.Settings)
	}
	if t.Forecaster != nil {
		t.forecast(in, d, r)
		in.Forecasts = true
	}
	// In the shadow they were made and did not decide, whatever the state.
	if d.Mode == shadow && d.State == string(correction.Live) && d.Bundle > 0 {
		in.Forecasts = true
	}
}

// shadow is the mode in which forecasts are made and decide nothing.
const shadow = "shadow"

func (t *Target) forecast(in *policy.Input, d *feature.Decision, r *remake) {
	r.vectors, r.forecasts = r.vectors[:0], r.forecasts[:0]
	for i := range in.Candidates {
		v := d.Candidates[i].Vector
		if p := v.Prior(); !(p.TTFT > 0) { // it was not asked about
			v = in.Candidates[i].Vector(&in.Request)
		}
		r.vectors, r.forecasts = append(r.vectors, v), append(r.forecasts, feature.NoForecast)
	}
	t.Forecaster.Evaluate(r.vectors, r.forecasts)
	correction.Temper(r.forecasts, in.Request.ExpectedOutputTokens) // as the router does
	for i := range in.Candidates {
		c := &in.Candidates[i]
		c.Residual, c.Correction = feature.NoResidual, feature.Residual{}
		if r.forecasts[i].Known() {
			c.Residual = r.forecasts[i].Residual
		}
	}
}

// needs is what a policy reads of candidates beside what every log has.
func needs(name string) (signal string, known func(*policy.Candidate) bool) {
	switch name {
	case policy.WeightedBlend:
		return "the queue and KV cache as scraped", func(c *policy.Candidate) bool {
			return !feature.IsUnknown(c.Load.Scraped.Waiting) && !feature.IsUnknown(c.Load.Scraped.KVUsed)
		}
	case policy.ActiveRequest, policy.LeastRequest, policy.PowerOfTwo:
		return "the requests in flight", func(c *policy.Candidate) bool { return !feature.IsUnknown(c.Load.Ledger.Requests) }
	case policy.TokenLoad:
		return "the tokens in flight", func(c *policy.Candidate) bool { return !feature.IsUnknown(c.Load.Ledger.PrefillTokens) }
	case policy.CombinedLoad:
		return "the requests and tokens in flight", func(c *policy.Candidate) bool {
			return !feature.IsUnknown(c.Load.Ledger.Requests) && !feature.IsUnknown(c.Load.Ledger.PrefillTokens)
		}
	case policy.Predicted, policy.PredictorBlend:
		return "forecasts that may decide", func(c *policy.Candidate) bool { return c.Residual.Known() }
	}
	return "", nil
}

// lacks reports whether a decision tells nothing of what its policy reads.
func lacks(in *policy.Input) bool {
	_, known := needs(in.Policy)
	if known == nil {
		return false
	}
	if policy.Forecasting(in.Policy) && !in.Forecasts {
		return true
	}
	for i := range in.Candidates {
		if known(&in.Candidates[i]) {
			return false
		}
	}
	return true
}

// errLacks is the error of a log that tells nothing of what a policy reads.
func errLacks(name string, decisions int64) error {
	signal, _ := needs(name)
	err := fmt.Errorf("policy %s needs %s, and none of the %d decisions has any", name, signal, decisions)
	if policy.Forecasting(name) {
		return fmt.Errorf("%w: --bundle VERSION makes them from the logged vectors, --bundle 0 from the prior alone", err)
	}
	return err
}
