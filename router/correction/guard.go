package correction

import (
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Answer says what bundle a forecast came from.
type Answer struct {
	Bundle    int64
	Validated time.Time     // when a refit cycle last found it good
	MaxAge    time.Duration // how long after that it may be used; 0 means always
}

// Guard says whether the forecasts of one LLM may decide: a Machine, and what
// speaks against the bundle that answered last. Predictors that serve different
// bundles, as in the middle of a roll-out, may answer by turns: each of two bundles
// is judged by what itself said. Make it with NewGuard.
type Guard struct {
	machine *Machine
	present suspect // the bundle that answered last
	other   suspect // the one before it
	renewed bool    // the predictor went away refuted, and nothing has answered since
}

// suspect is what is known against one bundle. The zero value is of none.
type suspect struct {
	bundle   int64 // 0: none
	judge    Judge
	answered time.Time
	astray   int       // answers in a row that lost the order of their priors, of those that tell
	told     time.Time // when the last of those that tell, and counted, came
	lost     bool      // the last answer tells, and lost it
}

// When an answer loses the order of its priors.
const (
	priorsApart   = 2.0                  // as a factor: the least prior TTFT of an answer's vectors and the greatest
	priorsDiffer  = feature.Seconds(0.1) // and by as much, so that what endpoints add to every TTFT alike does not hide it
	answersFlat   = 0.1                  // share of what priors differ by that all forecasts lie within
	answersAstray = 8                    // in a row, each of another moment: seven are more than half of all with 99 % confidence
)

// NewGuard returns a guard that has had no answer.
func NewGuard(limits Limits, now time.Time) Guard { return Guard{machine: NewMachine(limits, now)} }

// State is the present state, the reason for it and since when.
func (g *Guard) State() (State, string, time.Time) { return g.machine.State() }

// Live reports whether forecasts may decide.
func (g *Guard) Live() bool { return g.machine.state == Live }

// Lost reports whether the last answer lost the order of its priors, so that what
// asked for it must not be decided by it, also while others may be. A sound bundle
// hardly ever gives one: none in 67,000 simulated answers with priors apart. The few
// that it takes to be sure of a bad one sent the longest prompts to the fullest
// endpoints: in simulated mixed traffic at 80 % of the knee, forecasts turned round
// raised the TTFT p99 of the minute after by 60 %.
func (g *Guard) Lost() bool { return g.present.lost }

// Asks reports whether requests are to ask for forecasts. Where they are not,
// only a probe does, so that no request waits for a predictor that is known to be
// slow or gone.
func (g *Guard) Asks() bool {
	s := g.machine.state
	return s == Live || s == Stale || s == Wrong
}

// Bundle is the one that answered last; 0 before the first.
func (g *Guard) Bundle() int64 { return g.present.bundle }

// Forgets is what an answer of a bundle does to what was learned of the errors of
// forecasts, to be asked before g is told of it: nil where that still holds. What takes
// the place of another bundle has errors of its own, and if that one was refuted, what
// corrected it is worse than nothing. One that has answered within the return hold is
// not new.
func (g *Guard) Forgets(bundle int64) func(*Offset) {
	switch {
	case g.renewed, g.supersedes(bundle) && g.present.fault() != "":
		return (*Offset).clear
	case g.supersedes(bundle):
		return (*Offset).forget
	}
	return nil
}

func (g *Guard) supersedes(bundle int64) bool {
	return g.present.bundle != 0 && bundle != g.present.bundle && !g.byTurns(bundle)
}

// byTurns reports whether a bundle that is not the present one answers beside it.
func (g *Guard) byTurns(bundle int64) bool {
	return bundle == g.other.bundle && g.present.answered.Sub(g.other.answered) < g.machine.limits.ReturnHold
}

// Answered tells g of an answer that was Screened: out[i] is what was forecast from
// vectors[i]. A residual refines the order of the priors, it neither turns it round
// nor makes all alike: where more than half of the answers do, for sure, no outcome
// need be waited for.
func (g *Guard) Answered(now time.Time, a Answer, vectors []feature.Vector, out []feature.Forecast) (Change, bool) {
	if a.Bundle != g.present.bundle {
		again := g.byTurns(a.Bundle)
		g.present, g.other = g.other, g.present
		if !again {
			g.present = suspect{bundle: a.Bundle}
			g.machine.relapses = 0
		}
	} else if g.renewed {
		g.present.judge.reopen()
	}
	g.renewed = false
	g.present.hear(now, g.machine.limits.ReturnHold, vectors, out)
	if c, moved := g.machine.Judged(now, g.present.fault()); moved {
		return c, true
	}
	return g.machine.Answered(now, a.Validated, a.MaxAge)
}

// hear takes in an answer. What none has told of for so long as hold is forgotten, so
// that forecasts are tried again where nothing tells.
func (s *suspect) hear(now time.Time, hold time.Duration, vectors []feature.Vector, out []feature.Forecast) {
	s.answered = now
	lost, tells := astray(vectors, out)
	s.lost = lost && tells
	switch silent := now.Sub(s.told); {
	case tells && silent < moment: // what tells the same again
	case tells && lost:
		s.astray, s.told = min(s.astray+1, answersAstray), now
	case tells:
		s.astray, s.told = 0, now
	case silent >= hold:
		s.astray = 0
	}
}

// astray reports whether an answer lost the order of its priors: whether the vector
// with the least prior TTFT is forecast a longer one than that with the greatest, or
// all of them about the same. tells is false where the priors are much alike.
func astray(vectors []feature.Vector, out []feature.Forecast) (lost, tells bool) {
	least, most := -1, -1
	var low, high feature.Seconds
	for i := range out {
		if !out[i].Known() {
			continue
		}
		ttft, p50 := vectors[i].Prior().TTFT, out[i].TTFT.P50
		if least < 0 {
			least, most, low, high = i, i, p50, p50
		}
		if ttft < vectors[least].Prior().TTFT {
			least = i
		}
		if ttft > vectors[most].Prior().TTFT {
			most = i
		}
		low, high = min(low, p50), max(high, p50)
	}
	if least < 0 {
		return false, false
	}
	short, long := vectors[least].Prior().TTFT, vectors[most].Prior().TTFT
	turned := out[least].TTFT.P50 > pairRatio*out[most].TTFT.P50
	flat := high-low < answersFlat*(long-short)
	return turned || flat, long > priorsApart*short && long-short > priorsDiffer
}

// fault says what speaks against the forecasts; empty when nothing does.
func (s *suspect) fault() string {
	if s.astray >= answersAstray {
		return "forecasts lose the order of their priors"
	}
	return s.judge.Fault()
}

// of is what is known against a bundle; nil for one that is neither of the two.
func (g *Guard) of(bundle int64) *suspect {
	switch {
	case bundle == 0:
		return nil
	case bundle == g.present.bundle:
		return &g.present
	case bundle == g.other.bundle:
		return &g.other
	}
	return nil
}

// Failed tells g how a forecast failed; see Machine. A predictor that goes away while
// outcomes refute it may come back as another, in the name of the same bundle: what
// comes is judged by itself.
func (g *Guard) Failed(now time.Time, result Result, why string) (Change, bool) {
	if result == Broken && g.present.judge.Fault() != "" {
		g.renewed = true
	}
	return g.machine.Failed(now, result, why)
}

// Settled tells g of an outcome that a bundle forecast, or of as much as is known
// of it by now: TTFT when the first token has come, TPOT at the end. What another
// bundle said is nothing against the present one.
func (g *Guard) Settled(now time.Time, bundle int64, s *Settled) (Change, bool) {
	of := g.of(bundle)
	if of == nil {
		return Change{}, false
	}
	of.judge.Observe(s)
	return g.machine.Judged(now, g.present.fault())
}

// Overdue tells g of a request that still waits for its first token and is Refuted,
// once: TTFT of s is not known. Its outcome is then Settled with Overdue set.
func (g *Guard) Overdue(now time.Time, bundle int64, s *Settled) (Change, bool) {
	of := g.of(bundle)
	if of == nil {
		return Change{}, false
	}
	of.judge.Overdue(s)
	return g.machine.Judged(now, g.present.fault())
}

// Tick lets time pass.
func (g *Guard) Tick(now time.Time) (Change, bool) { return g.machine.Tick(now) }
