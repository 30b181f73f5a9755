package route

import (
	"fmt"
	"time"

	"github.com/spillway-llm/spillway/router/design"
	"github.com/spillway-llm/spillway/router/policy"
)

// Experiment is what ModeSwitchback tries. The design says which arm decides when;
// before its start and after its end the router decides as in ModeLive.
type Experiment struct {
	Design design.Switchback
	Arms   [2]Arm // named by Design.Arms
}

// Arm is how one arm of an experiment decides.
type Arm struct {
	Policy   string
	Fallback string // a matched configuration, or Auto
	Settings policy.Settings
}

// DefaultExperiment has the documented defaults; what is tried, when, and what it
// is called is left to the caller. A block of a quarter of an hour is long beside
// what requests take and what caches keep under load, and 48 pairs of them are a
// whole day.
func DefaultExperiment() Experiment {
	return Experiment{Design: design.Switchback{Block: 15 * time.Minute, BurnIn: 5 * time.Minute, Pairs: 48, Seed: 1}}
}

// check reports the first setting that can't work, by its key.
func (e *Experiment) check() error {
	if err := e.Design.Check(); err != nil {
		return fmt.Errorf("experiment.%w", err)
	}
	for i := range e.Arms {
		if err := e.Arms[i].check(); err != nil {
			return fmt.Errorf("experiment.arms[%d].%w", i, err)
		}
	}
	return nil
}

func (a *Arm) check() error {
	if err := policy.Check(a.Policy); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	if a.Fallback != Auto {
		if err := policy.CheckFallback(a.Fallback); err != nil {
			return fmt.Errorf("fallback: %w, or %s", err, Auto)
		}
	}
	return checkSettings(&a.Settings)
}

// Forecasting reports whether forecasts may ever decide. In a switchback they are
// asked for in both arms where one of them needs them: what is learned of them goes
// on, and arms differ in their choices alone.
func (c *Config) Forecasting() bool {
	if policy.Forecasting(c.Policy) {
		return true
	}
	if c.Mode == ModeSwitchback {
		for i := range c.Experiment.Arms {
			if policy.Forecasting(c.Experiment.Arms[i].Policy) {
				return true
			}
		}
	}
	return false
}

// part is the part that a decision has in an experiment.
type part struct{ design, arm string }

// at is how the router decides at a time, and as which part of its experiment.
func (r *Router) at(now time.Time) (*Arm, part) {
	if r.config.Mode == ModeSwitchback {
		if place, ok := r.config.Experiment.Design.At(now); ok {
			return &r.config.Experiment.Arms[place.Arm], part{r.tried, r.config.Experiment.Design.Arms[place.Arm]}
		}
	}
	return &r.usual, part{}
}

// takeTurns says in the log when another arm has its turn. Called under mu.
func (r *Router) takeTurns(now time.Time) {
	arm, part := r.at(now)
	if part == r.turn {
		return
	}
	r.turn = part
	if part.arm == "" {
		r.log.Info("the experiment has ended", "experiment", r.config.Experiment.Design.Name, "policy", arm.Policy)
		return
	}
	place, _ := r.config.Experiment.Design.At(now)
	r.log.Info("another arm decides", "experiment", r.config.Experiment.Design.Name, "arm", part.arm,
		"block", place.Block+1, "of", 2*r.config.Experiment.Design.Pairs)
}

// tossed is the part that a decision of the canary has: none where nothing was left
// to its coin.
func (r *Router) tossed(out *policy.Choice) part {
	if r.config.Mode != ModeCanary {
		return part{}
	}
	arms := design.Canary(r.config.Canary, r.config.Policy).Arms
	switch {
	case out.Held:
		return part{r.tried, arms[0]}
	case out.Policy == r.config.Policy && policy.Forecasting(out.Policy):
		return part{r.tried, arms[1]}
	}
	return part{design: r.tried}
}

// design is the text of the design that is tried; empty for none.
func (c *Config) design() string {
	switch c.Mode {
	case ModeSwitchback:
		return c.Experiment.Design.String()
	case ModeCanary:
		s := design.Canary(c.Canary, c.Policy)
		return s.String()
	}
	return ""
}
