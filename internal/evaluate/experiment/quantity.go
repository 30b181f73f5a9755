package experiment

import "github.com/spillway-llm/spillway/internal/feature"

// A Quantity is what arms are compared by.
type Quantity string

// The quantities. Of latencies, and of requests that failed or were turned away,
// less is better; of the others, more.
const (
	TTFT     Quantity = "ttft"     // mean
	TTFTP90  Quantity = "ttft_p90" // of a block
	TPOT     Quantity = "tpot"     // mean
	E2E      Quantity = "e2e"      // mean
	Attained Quantity = "slo"      // share of the requests with objectives that met them
	Goodput  Quantity = "goodput"  // requests a second that met their objectives
	Failed   Quantity = "failed"   // share of the requests that got no answer: endpoints failed, or they were turned away
)

// Quantities lists them.
func Quantities() []Quantity {
	return []Quantity{TTFT, TTFTP90, TPOT, E2E, Attained, Goodput, Failed}
}

// Unit is "s", "1/s" or, of a share, "".
func (q Quantity) Unit() string {
	switch q {
	case TTFT, TTFTP90, TPOT, E2E:
		return "s"
	case Goodput:
		return "1/s"
	}
	return ""
}

// Less reports whether less of it is better.
func (q Quantity) Less() bool { return q != Attained && q != Goodput }

// What is known of one request, by number; of these a split and the means of a
// block are made.
const (
	ofTTFT = iota
	ofTPOT
	ofE2E
	ofAttained
	ofFailed
	ofRequest // how many there are
)

var unknownValues = [ofRequest]float64{feature.Unknown, feature.Unknown, feature.Unknown, feature.Unknown, feature.Unknown}

// A LeftOut is why a request of the experiment is not judged.
type LeftOut string

// The reasons.
const (
	Unended   LeftOut = "has no outcome"
	Lost      LeftOut = "its router ended before it did"
	ClockJump LeftOut = "ended before it was decided on: the clock jumped"
	Burning   LeftOut = "in the burn-in of its block"
	Unpaired  LeftOut = "its block has no other to be paired with"
)

func leftOuts() []LeftOut { return []LeftOut{Burning, Unpaired, Unended, Lost, ClockJump} }

// values is what a request came to; NaN where it does not tell. One that was given
// up tells what was seen by then, one that failed only that it did.
func values(d *feature.Decision, o *feature.Outcome, slo SLO) (v [ofRequest]float64, why LeftOut) {
	v = unknownValues
	switch {
	case o.Attempt == 0 && d.Chosen != "":
		return v, Unended
	case o.Attempt > 0 && !o.FinishedAt.IsZero() && o.FinishedAt.Before(d.DecidedAt):
		return v, ClockJump
	case o.Status == feature.Lost:
		return v, Lost
	}
	if d.SLOTTFT > 0 || d.SLOTPOT > 0 {
		slo = SLO{d.SLOTTFT, d.SLOTPOT}
	}
	if d.Chosen == "" || o.Status == feature.UpstreamError || o.Status == feature.UpstreamTimeout {
		v[ofFailed] = 1
		if slo.any() {
			v[ofAttained] = 0
		}
		return v, ""
	}
	v[ofTTFT], v[ofTPOT] = float64(o.TTFT), float64(o.TPOT)
	if o.Status == feature.OK {
		v[ofE2E], v[ofFailed] = float64(o.E2E), 0
	}
	v[ofAttained] = slo.attained(o)
	return v, ""
}

// SLO is what requests are held to that ask for nothing themselves; 0 or unknown
// is none.
type SLO struct{ TTFT, TPOT feature.Seconds }

func (s SLO) any() bool { return s.TTFT > 0 || s.TPOT > 0 }

// attained is 1 where a request that was served met its objectives, 0 where it
// missed one, and NaN where it has none or was given up before that was seen.
func (s SLO) attained(o *feature.Outcome) float64 {
	missed := s.TTFT > 0 && (o.TTFT > s.TTFT || o.CensoredAt > s.TTFT) || s.TPOT > 0 && o.TPOT > s.TPOT
	seen := !(s.TTFT > 0 && feature.IsUnknown(o.TTFT)) && !(s.TPOT > 0 && feature.IsUnknown(o.TPOT) && o.OutputTokens != 1)
	switch {
	case !s.any():
		return feature.Unknown
	case missed:
		return 0
	case seen:
		return 1
	}
	return feature.Unknown
}
