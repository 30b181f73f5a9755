package correction

import "time"

// Answer says what bundle a forecast came from.
type Answer struct {
	Bundle    int64
	Validated time.Time     // when a refit cycle last found it good
	MaxAge    time.Duration // how long after that it may be used; 0 means always
}

// Guard says whether the forecasts of one LLM may decide: a Machine, and a Judge
// of the bundle that answered last. Make it with NewGuard.
type Guard struct {
	machine *Machine
	judge   Judge
	bundle  int64 // that answered last; 0: none yet
}

// NewGuard returns a guard that has had no answer.
func NewGuard(limits Limits, now time.Time) Guard { return Guard{machine: NewMachine(limits, now)} }

// State is the present state, the reason for it and since when.
func (g *Guard) State() (State, string, time.Time) { return g.machine.State() }

// Live reports whether forecasts may decide.
func (g *Guard) Live() bool { return g.machine.state == Live }

// Asks reports whether requests are to ask for forecasts. Where they are not,
// only a probe does, so that no request waits for a predictor that is known to be
// slow or gone.
func (g *Guard) Asks() bool {
	s := g.machine.state
	return s == Live || s == Stale || s == Wrong
}

// Bundle is the one that answered last; 0 before the first.
func (g *Guard) Bundle() int64 { return g.bundle }

// Supersedes reports whether an answer of a bundle is the first of one that takes
// the place of another: what was learned of the errors of that one is then to be
// forgotten.
func (g *Guard) Supersedes(bundle int64) bool { return g.bundle != 0 && bundle != g.bundle }

// Answered tells g of an answer that was Screened.
func (g *Guard) Answered(now time.Time, a Answer) (Change, bool) {
	if a.Bundle != g.bundle {
		g.bundle = a.Bundle
		g.judge.Reset()
		g.machine.Judged(now, "")
	}
	return g.machine.Answered(now, a.Validated, a.MaxAge)
}

// Failed tells g how a forecast failed; see Machine.
func (g *Guard) Failed(now time.Time, result Result, why string) (Change, bool) {
	return g.machine.Failed(now, result, why)
}

// Settled tells g of an outcome that a bundle forecast, or of as much as is known
// of it by now: TTFT when the first token has come, TPOT at the end. What an earlier
// bundle said is nothing against the present one.
func (g *Guard) Settled(now time.Time, bundle int64, s *Settled) (Change, bool) {
	if bundle != g.bundle {
		return Change{}, false
	}
	g.judge.Observe(s)
	return g.machine.Judged(now, g.judge.Fault())
}

// Overdue tells g of a request that still waits for its first token and is Refuted,
// once; its outcome is then Settled with Overdue set.
func (g *Guard) Overdue(now time.Time, bundle int64) (Change, bool) {
	if bundle != g.bundle {
		return Change{}, false
	}
	g.judge.Overdue()
	return g.machine.Judged(now, g.judge.Fault())
}

// Tick lets time pass.
func (g *Guard) Tick(now time.Time) (Change, bool) { return g.machine.Tick(now) }
