package offpolicy

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// A Sample is one decision as the estimators see it.
type Sample struct {
	At time.Time

	// Actions are what could be done. Probabilities of a policy add up to at
	// most 1; what lacks is the probability that it does nothing, of which no
	// value is told.
	Actions []Action

	Chosen int     // the action that was taken; -1: none
	Value  float64 // what came of it; not read when nothing was done
}

// An Action is one thing that could be done.
type Action struct {
	Logged float64 // probability under the policy that was in force
	Target float64 // and under the one that is judged
	Model  float64 // forecast of the value; read where Target is above 0, and of the chosen one
}

// weight is how much more often the target takes the action; +Inf where it
// takes one that is never seen.
func (a *Action) weight() float64 {
	if a.Target == 0 {
		return 0
	}
	return a.Target / a.Logged
}

// certain is the probability from which on a choice counts as deterministic.
const certain = 1 - 1e-9

// deterministic reports whether nothing else could have been done.
func (s *Sample) deterministic() bool {
	if s.Chosen >= 0 {
		return s.Actions[s.Chosen].Logged >= certain
	}
	for i := range s.Actions {
		if s.Actions[i].Logged > 1-certain {
			return false
		}
	}
	return true
}

var errChosen = errors.New("what was done had no probability")

// check reports numbers that no estimator can work with.
func (s *Sample) check() error {
	if s.Chosen >= len(s.Actions) || s.Chosen < -1 {
		return fmt.Errorf("action %d of %d was taken", s.Chosen, len(s.Actions))
	}
	logged, target := 0.0, 0.0
	for i := range s.Actions {
		a := &s.Actions[i]
		if !(a.Logged >= 0 && a.Target >= 0) {
			return fmt.Errorf("action %d has the probabilities %v and %v", i, a.Logged, a.Target)
		}
		logged, target = logged+a.Logged, target+a.Target
		if (a.Target > 0 || i == s.Chosen) && !finite(a.Model) {
			return fmt.Errorf("action %d has the forecast %v", i, a.Model)
		}
	}
	const most = 1 + 1e-6
	switch {
	case logged > most || target > most:
		return fmt.Errorf("probabilities add up to %v and %v", logged, target)
	case s.Chosen < 0:
		return nil
	case !(s.Actions[s.Chosen].Logged > 0):
		return errChosen
	case !finite(s.Value):
		return fmt.Errorf("the value is %v", s.Value)
	}
	return nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
