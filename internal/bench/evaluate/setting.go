package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spillway-llm/spillway/internal/evaluate/offpolicy"
	"github.com/spillway-llm/spillway/internal/evaluate/simulate"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/router/policy"
)

// oracle is who is asked for forecasts.
type oracle uint8

const (
	prior oracle = iota
	forests
)

// setting is how a router decides.
type setting struct {
	name     string
	policy   string
	fallback string
	canary   float64
	settings policy.Settings
	says     oracle
}

// loggings are those that logs are written by.
var loggings = []setting{
	exploring(0.01, prior), exploring(0.05, forests), exploring(1, prior), exploring(0.01, forests), canary(), exploring(0.05, prior), exploring(1, forests),
}

// exploring is predicted which tries another of the cheapest that often; 1 is
// all of them alike.
func exploring(share float64, says oracle) setting {
	s := setting{name: fmt.Sprintf("predicted, exploring %.0f %%", 100*share), policy: policy.Predicted, settings: policy.Defaults(), says: says}
	s.settings.Exploration = share
	if share == 1 {
		s.name = "predicted, any of the shortlist"
	}
	if says == forests {
		s.name += ", forests"
	} else {
		s.name += ", prior"
	}
	return s
}

// canary lets forecasts decide about half of the requests.
func canary() setting {
	s := exploring(0.01, prior)
	s.name, s.canary, s.fallback = "canary of 50 %, prior", 0.5, policy.TokenLoad
	return s
}

// target is what is asked of a log: what if this were changed?
type target struct {
	name     string
	policy   string // "": the log's, with what else is changed
	fallback string
	change   func(*policy.Settings)
	says     *oracle // nil: the log's
}

// of is the setting of the target.
func (t *target) of(s setting) setting {
	if t.policy != "" {
		s.policy, s.canary = t.policy, 0
	}
	if t.fallback != "" {
		s.fallback = t.fallback
	}
	if t.change != nil {
		t.change(&s.settings)
	}
	if t.says != nil {
		s.says = *t.says
	}
	s.name = t.name
	return s
}

// scatters reports whether the target sends requests anywhere but where their
// prefixes lie. Where traffic lives on caches, effects of thousands of percent
// would come of it, which nobody needs an instrument for.
func (t *target) scatters() bool {
	return slices.Contains([]string{policy.RoundRobin, policy.LeastRequest, policy.PredictorBlend}, cmp.Or(t.fallback, t.policy))
}

func named(policy string) target { return target{name: policy, policy: policy} }

func changed(name string, change func(*policy.Settings)) target {
	return target{name: "predicted, " + name, change: change}
}

// targets are what may be asked of a log of s, the most different first and last.
func (s *setting) targets() []target {
	other := prior
	name := "predicted, prior"
	if s.says == prior {
		other, name = forests, "predicted, forests"
	}
	all := []target{
		named(policy.TokenLoad),
		changed("valve at 0.1 s", func(s *policy.Settings) { s.PredictedPenalty, s.MaxTTFTPenalty = 0.1, 0.5 }),
		named(policy.ActiveRequest),
		{name: name, says: &other},
		named(policy.CombinedLoad),
		changed("own latency alone", func(s *policy.Settings) {
			s.PrefillExternality, s.QueueExternality, s.DecodeExternality, s.EvictionWeight, s.HeadroomWeight = 0, 0, 0, 0, 0
		}),
		named(policy.LeastRequest),
		changed("no impatience", func(s *policy.Settings) { s.Impatience = 0 }),
		named(policy.WeightedBlend),
		changed("sticky at 10 %", func(s *policy.Settings) { s.StickyShare, s.StickySaved = 0.1, 0.05 }),
		named(policy.RoundRobin),
		changed("eviction and others thrice", func(s *policy.Settings) {
			s.EvictionWeight *= 3
			s.PrefillExternality, s.DecodeExternality = 3*s.PrefillExternality, 3*s.DecodeExternality
		}),
		named(policy.PredictorBlend),
		{name: "token-load, valve at 2 s", policy: policy.TokenLoad, change: func(s *policy.Settings) { s.MaxTTFTPenalty = 2 }},
		changed("exploring 20 %", func(s *policy.Settings) { s.Exploration = 0.2 }),
	}
	if s.settings.Exploration == 1 {
		all = append(all, changed("exploring 1 %", func(s *policy.Settings) { *s = policy.Defaults() }))
	}
	if s.canary > 0 {
		all = []target{
			{name: "fallback active-request", fallback: policy.ActiveRequest},
			named(policy.TokenLoad),
			{name: "predicted in all", policy: policy.Predicted},
			{name: "fallback round-robin", fallback: policy.RoundRobin},
			named(policy.ActiveRequest),
			{name: "fallback combined-load", fallback: policy.CombinedLoad},
			{name: "fallback least-request", fallback: policy.LeastRequest},
			named(policy.RoundRobin),
		}
	}
	return all
}

// route makes a router decide so.
func (s *setting) route(c *fleet.RouterConfig, b *bundles) {
	c.Policy, c.Fallback, c.Canary, c.Settings = s.policy, s.fallback, s.canary, s.settings
	c.Forecaster = fleet.PriorForecaster{}
	if s.says == forests {
		c.Forecaster = b
	}
}

// asked is the target as estimators of logs take it.
func (t *target) asked(b *bundles) offpolicy.Target {
	return offpolicy.Target{Policy: t.policy, Fallback: t.fallback, Change: t.change, Forecaster: t.forecaster(b)}
}

// simulated is the target as a fitted fleet takes it.
func (t *target) simulated(b *bundles) simulate.Setting {
	return simulate.Setting{Policy: t.policy, Fallback: t.fallback, Change: t.change, Forecaster: t.forecaster(b)}
}

// forecaster is who is asked instead of the log's; nil: nobody.
func (t *target) forecaster(b *bundles) offpolicy.Forecaster {
	switch {
	case t.says == nil:
		return nil
	case *t.says == forests:
		return b.Evaluator
	}
	return offpolicy.Prior{}
}

// kind is the kind of log that a world has.
func (w *world) kind() string {
	switch e := w.logged.settings.Exploration; {
	case w.logged.canary > 0:
		return "canary"
	case e == 1:
		return "any of the shortlist"
	default:
		return fmt.Sprintf("exploring %.0f %%", 100*e)
	}
}
