package correction

import (
	"math/bits"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

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
	turned  uint16    // which of the last 16 answers that tell turned the order of their priors round, a bit each
	told    time.Time // when the last of those came
	bundle  int64     // that answered last; 0: none yet
}

// When an answer turns the order of its priors round.
const (
	priorsApart   = 2.0                  // as a factor: the least prior TTFT of an answer's vectors and the greatest
	priorsDiffer  = feature.Seconds(0.1) // and by as much, so that what endpoints add to every TTFT alike does not hide it
	answersTurned = 14                   // of the last 16: more than half of all, with 99 % confidence
)

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

// Answered tells g of an answer that was Screened: out[i] is what was forecast from
// vectors[i]. A residual refines the order of the priors, it does not turn it round:
// where more than half of the answers do, for sure, no outcome need be waited for.
func (g *Guard) Answered(now time.Time, a Answer, vectors []feature.Vector, out []feature.Forecast) (Change, bool) {
	if a.Bundle != g.bundle {
		g.bundle, g.turned = a.Bundle, 0
		g.judge.Reset()
		g.machine.relapses = 0
	}
	if reversed, told := turned(vectors, out); told {
		g.told = now
		g.turned <<= 1
		if reversed {
			g.turned |= 1
		}
	} else if now.Sub(g.told) >= g.machine.limits.ReturnHold {
		g.turned = 0 // so that they are tried again where nothing tells
	}
	if c, moved := g.machine.Judged(now, g.fault()); moved {
		return c, true
	}
	return g.machine.Answered(now, a.Validated, a.MaxAge)
}

// turned reports whether the vector with the least prior TTFT is forecast a longer
// one than that with the greatest; told is false where they are much alike.
func turned(vectors []feature.Vector, out []feature.Forecast) (reversed, told bool) {
	least, most := -1, -1
	for i := range out {
		if !out[i].Known() {
			continue
		}
		ttft := vectors[i].Prior().TTFT
		if least < 0 || ttft < vectors[least].Prior().TTFT {
			least = i
		}
		if most < 0 || ttft > vectors[most].Prior().TTFT {
			most = i
		}
	}
	if least < 0 {
		return false, false
	}
	short, long := vectors[least].Prior().TTFT, vectors[most].Prior().TTFT
	return out[least].TTFT.P50 > pairRatio*out[most].TTFT.P50, long > priorsApart*short && long-short > priorsDiffer
}

// fault says what speaks against the forecasts; empty when nothing does.
func (g *Guard) fault() string {
	if bits.OnesCount16(g.turned) >= answersTurned {
		return "forecasts turn the order of their priors round"
	}
	return g.judge.Fault()
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
	return g.machine.Judged(now, g.fault())
}

// Overdue tells g of a request that still waits for its first token and is Refuted,
// once; its outcome is then Settled with Overdue set.
func (g *Guard) Overdue(now time.Time, bundle int64) (Change, bool) {
	if bundle != g.bundle {
		return Change{}, false
	}
	g.judge.Overdue()
	return g.machine.Judged(now, g.fault())
}

// Tick lets time pass.
func (g *Guard) Tick(now time.Time) (Change, bool) { return g.machine.Tick(now) }
