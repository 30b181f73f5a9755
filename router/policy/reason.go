package policy

import (
	"fmt"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Code is the kind of a reason.
type Code uint8

// The kinds of reasons.
const (
	NoCandidate Code = iota
	InTurn           // round-robin
	AnyOf            // random
	LeastLoad        // no affinity asked for
	AllCold          // nobody holds the prefix
	AllWarm          // everybody does
	Warm             // stayed with the prefix
	Spilled          // the valve opened
	Missing          // those that hold the prefix miss an objective that others meet
	Blended          // greatest weighted sum of scores
	Drawn            // by a weight that follows from forecasts
	Shed             // turned away: nobody meets its objectives
)

// Reason says why a choice was made.
type Reason struct {
	Code     Code
	Warm     feature.Seconds // best TTFT estimated among the warm endpoints; NaN when none is
	Coldest  feature.Seconds // and among the others; NaN when there are none
	Gap      feature.Seconds // Warm - Coldest
	Valve    feature.Seconds // the gap at which the valve opens
	Cost     float64         // of the chosen endpoint
	Explored bool

	Probability float64 // of a draw by weight

	// Of a request with objectives, where forecasts decide.
	Objective       bool
	Meeting         int     // candidates whose p90 meets them all
	Of              int     // of so many with a forecast
	Excess          float64 // where none does: share by which the best one exceeds its objective
	Sheddable       bool    // and the request may be shed,
	ShedProbability float64 // with this probability where forecasts decide
}

// String is one readable line, such as
// "warm, 0.31 s; coldest 0.22 s; gap 0.09 s < 5 s".
func (r Reason) String() string {
	if r.Code == Shed {
		return fmt.Sprintf("shed with probability %.2f: best p90 is %.0f %% over its SLO", r.ShedProbability, 100*r.Excess)
	}
	s := r.code()
	switch {
	case r.Code == Missing:
		s = fmt.Sprintf("%d of %d meet the SLO, none of the warm ones", r.Meeting, r.Of)
	case r.Meeting > 0:
		s = fmt.Sprintf("%d of %d meet the SLO: %s", r.Meeting, r.Of, s)
	case r.Sheddable:
		s += fmt.Sprintf("; best p90 is %.0f %% over its SLO; not shed, probability %.2f", 100*r.Excess, r.ShedProbability)
	case r.Objective:
		s += fmt.Sprintf("; best p90 is %.0f %% over its SLO", 100*r.Excess)
	}
	if r.Explored {
		s += "; explored"
	}
	return s
}

// code is the line without what may be added to any kind of reason.
func (r Reason) code() string {
	switch r.Code {
	case InTurn:
		return "in turn"
	case AnyOf:
		return "any"
	case LeastLoad:
		return "least load"
	case AllCold:
		return "no endpoint holds the prefix"
	case AllWarm:
		return "every endpoint holds the prefix"
	case Warm:
		if feature.IsUnknown(r.Gap) {
			return "warm; nothing to compare it with"
		}
		sign := "<"
		if r.Gap == r.Valve {
			sign = "="
		}
		return fmt.Sprintf("warm, %.2f s; coldest %.2f s; gap %.2f s %s %g s", r.Warm, r.Coldest, r.Gap, sign, r.Valve)
	case Spilled:
		return fmt.Sprintf("spilled: warm %.2f s; coldest %.2f s; gap %.2f s > %g s", r.Warm, r.Coldest, r.Gap, r.Valve)
	case Blended:
		return fmt.Sprintf("best blend, %.2f of %d", blendMost-r.Cost, blendMost)
	case Drawn:
		return fmt.Sprintf("drawn with probability %.2f", r.Probability)
	}
	return "no endpoint can serve this"
}
