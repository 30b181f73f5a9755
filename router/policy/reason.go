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
	Blended          // greatest weighted sum of scores
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
}

// String is one readable line, such as
// "warm, 0.31 s; others 0.22 s; gap 0.09 s <= 5 s".
func (r Reason) String() string {
	var s string
	switch r.Code {
	case NoCandidate:
		return "no endpoint can serve this"
	case InTurn:
		return "in turn"
	case AnyOf:
		return "any"
	case LeastLoad:
		s = "least load"
	case AllCold:
		s = "no endpoint holds the prefix"
	case AllWarm:
		s = "every endpoint holds the prefix"
	case Warm:
		s = fmt.Sprintf("warm, %.2f s; others %.2f s; gap %.2f s <= %g s", r.Warm, r.Coldest, r.Gap, r.Valve)
	case Spilled:
		s = fmt.Sprintf("spilled: warm %.2f s; others %.2f s; gap %.2f s > %g s", r.Warm, r.Coldest, r.Gap, r.Valve)
	case Blended:
		s = fmt.Sprintf("best blend, %.2f of %d", blendMost-r.Cost, blendMost)
	}
	if r.Explored {
		s += "; explored"
	}
	return s
}
