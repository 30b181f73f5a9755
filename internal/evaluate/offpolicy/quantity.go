package offpolicy

import (
	"fmt"
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
)

// A Quantity is what a request is judged by.
type Quantity string

// The quantities. Of the first three less is better: the reward is what they
// lack of 0. Of Attained more is: 1 where the request met its objectives.
const (
	TTFT     Quantity = "ttft"
	TPOT     Quantity = "tpot"
	E2E      Quantity = "e2e"
	Attained Quantity = "slo"
)

// Quantities lists them.
func Quantities() []Quantity { return []Quantity{TTFT, TPOT, E2E, Attained} }

// Longest is the value beyond which none counts unless something else is asked
// for: far above what a served request takes, so that few are cut, and not so far
// that one failure outweighs thousands of requests.
func (q Quantity) Longest() feature.Seconds {
	switch q {
	case TTFT:
		return 60
	case TPOT:
		return 1
	case E2E:
		return 600
	}
	return 1
}

// unit is "s" or, of a share, "".
func (q Quantity) unit() string {
	if q == Attained {
		return ""
	}
	return "s"
}

// CheckQuantity reports a quantity that does not exist.
func CheckQuantity(q Quantity) error {
	if !slices.Contains(Quantities(), q) {
		return fmt.Errorf("no quantity %q: want one of %v", q, Quantities())
	}
	return nil
}

// A LeftOut is why a decision is not judged.
type LeftOut string

// The reasons, in the order in which they are looked for.
const (
	Incomplete LeftOut = "not all candidates are stored"
	OldVersion LeftOut = "made by another version of the policies, or stored in a form this build does not read"
	NoChance   LeftOut = "the probabilities it was made with are not stored"
	ClockJump  LeftOut = "ended before it was made: the clock jumped"
	Unended    LeftOut = "has no outcome"
	Lost       LeftOut = "its router ended before it did"
	Elsewhere  LeftOut = "served by another endpoint than the one decided on"
	Aborted    LeftOut = "given up by the client before what is judged was seen"
	Unmeasured LeftOut = "served, but what is judged was not measured"
	NoAim      LeftOut = "the request has no objective"
	NoModel    LeftOut = "neither a forecast nor a prior of what the policy would do"
)

// LeftOuts lists the reasons.
func LeftOuts() []LeftOut {
	return []LeftOut{Incomplete, OldVersion, NoChance, ClockJump, Unended, Lost, Elsewhere, Aborted, Unmeasured, NoAim, NoModel}
}

// objectives are what a request is held to.
type objectives struct{ ttft, tpot feature.Seconds }

func (o objectives) any() bool { return o.ttft > 0 || o.tpot > 0 }

// measure is how a quantity is measured.
type measure struct {
	quantity Quantity
	longest  float64 // in its unit
	defaults objectives
}

// of is the objectives of a decision: its own, else the defaults.
func (m *measure) of(d *feature.Decision) objectives {
	o := objectives{d.SLOTTFT, d.SLOTPOT}
	if !o.any() {
		return m.defaults
	}
	return o
}

// came is what a decision's outcome is worth. failed says that the endpoint gave
// no answer, which counts as the longest latency, or as a miss.
//
// An outcome of a second attempt tells that the endpoint chosen failed before
// its first byte, and nothing else of it.
func (m *measure) came(d *feature.Decision, o *feature.Outcome, aim objectives) (v float64, failed bool, why LeftOut) {
	if m.quantity == Attained && !aim.any() {
		return 0, false, NoAim
	}
	switch {
	case o.Attempt == 0 && d.Chosen != "":
		return 0, false, Unended
	case o.Attempt > 0 && !o.FinishedAt.IsZero() && o.FinishedAt.Before(d.DecidedAt):
		return 0, false, ClockJump
	case d.Chosen == "":
		return 0, false, ""
	case o.Attempt > 1, o.Status == feature.UpstreamError, o.Status == feature.UpstreamTimeout:
		return m.worst(), true, ""
	case o.Endpoint != "" && o.Endpoint != d.Chosen:
		return 0, false, Elsewhere
	case o.Status == feature.Lost:
		return 0, false, Lost
	}
	if m.quantity == Attained {
		return m.attained(o, aim)
	}
	seen := o.TTFT
	switch m.quantity {
	case TPOT:
		seen = o.TPOT
	case E2E:
		seen = o.E2E
	}
	switch {
	case seen >= 0:
		return min(float64(seen), m.longest), false, ""
	case o.Status != feature.OK:
		return 0, false, Aborted
	}
	return 0, false, Unmeasured
}

// worst is what a failure counts as.
func (m *measure) worst() float64 {
	if m.quantity == Attained {
		return 0
	}
	return m.longest
}

func (m *measure) attained(o *feature.Outcome, aim objectives) (float64, bool, LeftOut) {
	missed := aim.ttft > 0 && (o.TTFT > aim.ttft || o.CensoredAt > aim.ttft) || aim.tpot > 0 && o.TPOT > aim.tpot
	unseen := aim.ttft > 0 && feature.IsUnknown(o.TTFT) || aim.tpot > 0 && feature.IsUnknown(o.TPOT) && !(o.OutputTokens == 1)
	switch {
	case missed:
		return 0, false, ""
	case unseen && o.Status != feature.OK:
		return 0, false, Aborted
	case unseen:
		return 0, false, Unmeasured
	}
	return 1, false, ""
}

// extremes are what a request that was given up may have come to at best and at
// worst, the lesser first.
func (m *measure) extremes(o *feature.Outcome) (least, most float64) {
	if m.quantity == Attained {
		return 0, 1
	}
	if m.quantity != TPOT && o.CensoredAt > 0 {
		least = min(float64(o.CensoredAt), m.longest)
	}
	return least, m.longest
}

// forecast is the expected value of a request whose latency is log-normal
// through p50 and p90, cut at the longest; false where nothing is forecast.
func (m *measure) forecast(f *feature.Forecast, output float64, aim objectives) (float64, bool) {
	switch m.quantity {
	case TTFT:
		v := expected(f.TTFT, m.longest)
		return v, finite(v)
	case TPOT:
		v := expected(f.TPOT, m.longest)
		return v, finite(v)
	case E2E:
		v := min(m.longest, expected(f.TTFT, m.longest)+max(0, output-1)*expected(f.TPOT, m.longest))
		return v, finite(v)
	}
	v := 1.0
	if aim.ttft > 0 {
		v *= within(f.TTFT, float64(aim.ttft))
	}
	if aim.tpot > 0 {
		v *= within(f.TPOT, float64(aim.tpot))
	}
	return v, finite(v)
}

// z90 is the 90 % quantile of the normal distribution.
const z90 = 1.2815515655446004

// spread is the standard deviation of the logarithm; 0 where only the median is
// known.
func spread(q feature.Quantiles) float64 {
	if s := math.Log(float64(q.P90/q.P50)) / z90; s > 1e-9 {
		return s
	}
	return 0
}

// expected is the mean of min(X, longest).
func expected(q feature.Quantiles, longest float64) float64 {
	p50, s := float64(q.P50), spread(q)
	if !(p50 > 0) {
		return math.NaN()
	}
	if s == 0 {
		return min(p50, longest)
	}
	at := math.Log(longest/p50) / s
	return p50*math.Exp(s*s/2)*normal(at-s) + longest*(1-normal(at))
}

// within is the probability that X is at most a bound.
func within(q feature.Quantiles, bound float64) float64 {
	p50, s := float64(q.P50), spread(q)
	switch {
	case !(p50 > 0):
		return math.NaN()
	case s == 0 && p50 <= bound:
		return 1
	case s == 0:
		return 0
	}
	return normal(math.Log(bound/p50) / s)
}

// normal is the distribution function of the standard normal distribution.
func normal(z float64) float64 { return 0.5 * math.Erfc(-z/math.Sqrt2) }
