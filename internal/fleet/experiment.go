package fleet

import (
	"errors"
	"fmt"
	"time"

	"github.com/spillway-llm/spillway/router/design"
	"github.com/spillway-llm/spillway/router/policy"
)

// Experiment lets two arms decide: in turn, as a router in mode switchback does, or
// as a coin says for each request. One of Switchback and Split is given. Before the
// start and after the end of a switchback the router decides as it otherwise would.
type Experiment struct {
	Switchback *design.Switchback // a zero Start: when the world begins
	Split      *design.Split
	Arms       [2]Arm // named by the design
}

// Arm is how one arm decides.
type Arm struct {
	Policy   string
	Fallback string          // "": Auto
	Settings policy.Settings // the zero value: policy.Defaults()
}

// complete fills in defaults and reports what can't work.
func (a Arm) complete() (Arm, error) {
	if a.Settings == (policy.Settings{}) {
		a.Settings = policy.Defaults()
	}
	if a.Fallback == "" {
		a.Fallback = Auto
	}
	if err := policy.Check(a.Policy); err != nil {
		return a, err
	}
	if a.Fallback != Auto {
		return a, policy.CheckFallback(a.Fallback)
	}
	return a, nil
}

// complete fills in defaults and reports what can't work. What it returns shares
// nothing with e that changes.
func (e *Experiment) complete() (*Experiment, error) {
	if e == nil {
		return nil, nil
	}
	out := &Experiment{}
	for i := range e.Arms {
		var err error
		if out.Arms[i], err = e.Arms[i].complete(); err != nil {
			return nil, fmt.Errorf("experiment: arm %d: %w", i, err)
		}
	}
	switch {
	case (e.Switchback == nil) == (e.Split == nil):
		return nil, errors.New("experiment: want either a switchback or a split")
	case e.Split != nil:
		split := *e.Split
		out.Split = &split
		if err := split.Check(); err != nil {
			return nil, fmt.Errorf("experiment: %w", err)
		}
		return out, nil
	}
	back := *e.Switchback
	out.Switchback = &back
	if back.Start.IsZero() {
		back.Start = epoch
	}
	if err := back.Check(); err != nil {
		return nil, fmt.Errorf("experiment: %w", err)
	}
	return out, nil
}

// forecasting reports whether an arm needs forecasts.
func (e *Experiment) forecasting() bool {
	return e != nil && (policy.Forecasting(e.Arms[0].Policy) || policy.Forecasting(e.Arms[1].Policy))
}

// part is the part that a decision has in an experiment.
type part struct{ mode, design, arm string }

// arm is how the router decides now: for a split, by its coin.
func (r *router) arm(now time.Time) (Arm, part) {
	usual, live := Arm{r.config.Policy, r.config.Fallback, r.config.Settings}, part{mode: "live"}
	e := r.config.Experiment
	switch {
	case e == nil:
		return usual, live
	case e.Split != nil:
		i := 0
		if float64(r.seeds.Uint64()>>11)/(1<<53) < e.Split.Share {
			i = 1
		}
		return e.Arms[i], part{"canary", r.tried, e.Split.Arms[i]}
	}
	if place, ok := e.Switchback.At(now); ok {
		return e.Arms[place.Arm], part{"switchback", r.tried, e.Switchback.Arms[place.Arm]}
	}
	return usual, part{mode: "switchback"}
}

// tossed is the part of a decision of the canary, which Decide tosses the coin of.
func (r *router) tossed(out *policy.Choice) part {
	arms := design.Canary(r.config.Canary, r.config.Policy).Arms
	switch {
	case out.Held:
		return part{"canary", r.tried, arms[0]}
	case out.Policy == r.config.Policy && policy.Forecasting(out.Policy):
		return part{"canary", r.tried, arms[1]}
	}
	return part{"canary", r.tried, ""}
}

// design is the text of the design that is tried; empty for none.
func (c *RouterConfig) design() string {
	switch e := c.Experiment; {
	case e != nil && e.Switchback != nil:
		return e.Switchback.String()
	case e != nil:
		return e.Split.String()
	case c.Canary > 0:
		s := design.Canary(c.Canary, c.Policy)
		return s.String()
	}
	return ""
}
