package correction

import (
	"fmt"
	"time"
)

// State says whether forecasts may decide, and if not, why.
type State string

// The states of one LLM's forecasts. Only in Live do they decide.
const (
	Live  State = "live"  // forecasts decide
	Cold  State = "cold"  // there has never been a bundle
	Stale State = "stale" // the bundle was validated too long ago, or speaks another schema
	Slow  State = "slow"  // too many forecasts missed their deadline
	Down  State = "down"  // the predictor does not answer
	Wrong State = "wrong" // the forecasts are not to be believed: impossible, or refuted by outcomes
)

// States lists all of them, for metrics and checks.
var States = []State{Live, Cold, Stale, Slow, Down, Wrong}

// Result is how asking for one forecast ended.
type Result int

// The ends of asking for a forecast.
const (
	Answered  Result = iota
	Late             // past the deadline
	Broken           // no connection, or it broke
	Untrained        // the predictor has no bundle for this LLM
	Mismatch         // the bundle speaks another schema
	Invalid          // an answer no engine can keep: NaN, not positive, or above 600 s
)

// Limits are the numbers of a Machine. All must be positive.
type Limits struct {
	SlowWindow time.Duration // window in which late forecasts are counted
	SlowShare  float64       // share of late forecasts that makes it slow
	SlowLeast  int           // and the least number of them
	ReturnHold time.Duration // how long all must be well before forecasts decide again
}

// DefaultLimits are those of production.
func DefaultLimits() Limits {
	return Limits{SlowWindow: 10 * time.Second, SlowShare: 0.01, SlowLeast: 3, ReturnHold: time.Minute}
}

// Change is one move of a Machine.
type Change struct {
	From, To State
	Reason   string
	At       time.Time
}

// Machine holds the forecast state of one LLM. Leaving Live is never delayed;
// coming back waits until nothing has been wrong for the return hold, and twice as
// long each time that outcomes refuted the forecasts again within ten such holds of
// coming back, up to sixteen times: what is refuted again and again decides ever
// less, until the predictor begins anew or serves another bundle. Only the first
// bundle ever ends Cold, and at once.
type Machine struct {
	limits   Limits
	state    State
	reason   string
	since    time.Time
	well     time.Time // when the last trouble ended; zero while it lasts
	back     time.Time // when it last came back to Live; zero: never
	relapses int       // in a row: refuted again soon after it had come back
	fault    string    // what outcomes say against the forecasts; empty when nothing

	validated time.Time
	maxAge    time.Duration

	slots [10]tally // of the slow window
	slot  int64
}

type tally struct{ asked, late int }

// NewMachine returns a machine in Cold.
func NewMachine(limits Limits, now time.Time) *Machine {
	return &Machine{limits: limits, state: Cold, reason: "no bundle yet", since: now}
}

// State is the present state, the reason for it and since when.
func (m *Machine) State() (State, string, time.Time) { return m.state, m.reason, m.since }

// Answered tells m that the predictor answered from a bundle that was
// validated then and may serve maxAge (0: for ever).
func (m *Machine) Answered(now, validated time.Time, maxAge time.Duration) (Change, bool) {
	m.validated, m.maxAge = validated, maxAge
	m.count(now, false)
	if m.tooOld(now) {
		return m.move(now, Stale, fmt.Sprintf("bundle validated %s ago, allowed %s", now.Sub(validated).Round(time.Second), maxAge))
	}
	if m.state == Cold {
		return m.move(now, Live, "first bundle accepted")
	}
	if m.state == Live {
		return Change{}, false
	}
	if m.state == Slow && m.slow() {
		m.well = time.Time{}
		return Change{}, false
	}
	if m.fault != "" {
		return m.move(now, Wrong, m.fault)
	}
	if m.well.IsZero() {
		m.well = now
	}
	if hold := m.hold(); now.Sub(m.well) >= hold {
		m.back = now
		return m.move(now, Live, fmt.Sprintf("well for %s", hold))
	}
	return Change{}, false
}

// Failed tells m how a forecast failed. why goes into the reason.
func (m *Machine) Failed(now time.Time, result Result, why string) (Change, bool) {
	if m.state == Cold { // it can't get worse, and the reason should stay
		return Change{}, false
	}
	m.well = time.Time{}
	switch result {
	case Late:
		m.count(now, true)
		if m.state != Live && m.state != Slow || !m.slow() {
			return Change{}, false
		}
		asked, late := m.recent()
		return m.move(now, Slow, fmt.Sprintf("%d of %d forecasts late in %s", late, asked, m.limits.SlowWindow))
	case Broken:
		m.relapses = 0 // what answers next is another
		return m.move(now, Down, why)
	case Untrained, Mismatch:
		return m.move(now, Stale, why)
	case Invalid:
		return m.move(now, Wrong, why)
	}
	return Change{}, false
}

// Judged tells m what outcomes say against the forecasts, empty when nothing;
// see Judge. While they say anything, m does not come back to Live. A predictor
// that does not answer, or answers late, stays Down or Slow until it does.
func (m *Machine) Judged(now time.Time, fault string) (Change, bool) {
	m.fault = fault
	if fault == "" || m.state != Live && m.state != Wrong {
		return Change{}, false
	}
	if m.state == Live && !m.back.IsZero() {
		if now.Sub(m.back) > relapseHolds*m.hold() {
			m.relapses = 0
		} else {
			m.relapses = min(m.relapses+1, mostRelapses)
		}
	}
	return m.move(now, Wrong, fault)
}

// Tick lets time pass: a bundle may have become too old without anybody
// asking.
func (m *Machine) Tick(now time.Time) (Change, bool) {
	if m.state != Live || !m.tooOld(now) {
		return Change{}, false
	}
	return m.move(now, Stale, fmt.Sprintf("bundle validated %s ago, allowed %s", now.Sub(m.validated).Round(time.Second), m.maxAge))
}

func (m *Machine) tooOld(now time.Time) bool {
	return m.maxAge > 0 && now.Sub(m.validated) > m.maxAge
}

// move changes the state; the same state with the same trouble is no change.
func (m *Machine) move(now time.Time, to State, reason string) (Change, bool) {
	m.well = time.Time{}
	if m.state == to {
		return Change{}, false
	}
	change := Change{From: m.state, To: to, Reason: reason, At: now}
	m.state, m.reason, m.since = to, reason, now
	if to == Live {
		m.slots = [len(m.slots)]tally{}
	}
	return change, true
}

const (
	relapseHolds = 10 // holds after its return in which being refuted again is a relapse
	mostRelapses = 4  // that are counted: the longest hold is 2^4 return holds
)

// hold is how long all must be well before forecasts decide again.
func (m *Machine) hold() time.Duration { return m.limits.ReturnHold << m.relapses }

// count adds one forecast to the slow window.
func (m *Machine) count(now time.Time, late bool) {
	width := m.limits.SlowWindow / time.Duration(len(m.slots))
	slot := now.UnixNano() / int64(width)
	if behind := slot - m.slot; behind > 0 {
		for i := range min(behind, int64(len(m.slots))) {
			m.slots[(slot-i)%int64(len(m.slots))] = tally{}
		}
		m.slot = slot
	}
	t := &m.slots[m.slot%int64(len(m.slots))]
	t.asked++
	if late {
		t.late++
	}
}

func (m *Machine) recent() (asked, late int) {
	for _, t := range m.slots {
		asked += t.asked
		late += t.late
	}
	return asked, late
}

func (m *Machine) slow() bool {
	asked, late := m.recent()
	return late >= m.limits.SlowLeast && float64(late) > m.limits.SlowShare*float64(asked)
}
