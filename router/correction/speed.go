package correction

import (
	"math"
	"time"
)

const (
	speedDecay = 30 * time.Second // time constant of the evidence
	speedPrior = 10.0             // seconds of evidence that the factor is 1
	speedMost  = 7.0              // factors outside 1/7..7 are not believed
)

// Speed estimates how many times slower than the prior one endpoint runs:
// time that decoding streams really took, over the time the step model gives
// for the same steps. Evidence fades with a time constant of 30 s and is
// shrunk towards 1 by 10 s worth of it, so an endpoint without streams returns
// to 1.
//
// The zero value is an endpoint nothing is known about.
type Speed struct {
	taken    float64 // seconds streams took
	expected float64 // seconds the step model gives for them
	steps    float64 // engine steps that the evidence is of
	at       time.Time

	waited  float64 // seconds that a step is being waited for; 0 when none is
	longest float64 // seconds that it may take by the step model
}

// Observe adds evidence gathered up to now: streams took that many seconds
// for what the step model says takes expected seconds. Values that are not
// positive and finite only let older evidence fade.
func (s *Speed) Observe(now time.Time, taken, expected float64) {
	s.fade(now)
	if taken > 0 && expected > 0 && !math.IsInf(taken+expected, 0) {
		s.taken += taken
		s.expected += expected
	}
}

// Waiting says that a step that takes at most longest seconds by the step model
// has been waited for waited seconds, and still is. It replaces what was said
// before; waited of 0 says that nothing is waited for.
func (s *Speed) Waiting(waited, longest float64) {
	s.waited, s.longest = 0, 0
	if waited > longest && longest > 0 && !math.IsInf(waited, 0) {
		s.waited, s.longest = waited, longest
	}
}

// Factor is the estimate at now, within 1/7 and 7.
func (s *Speed) Factor(now time.Time) float64 {
	faded := *s
	faded.fade(now)
	taken, expected := faded.taken+speedPrior, faded.expected+speedPrior
	f := max(taken/expected, (taken+s.waited)/(expected+s.longest))
	return min(speedMost, max(1/speedMost, f))
}

// Steps is how many engine steps are behind the factor at now, faded like it.
func (s *Speed) Steps(now time.Time) float64 {
	faded := *s
	faded.fade(now)
	return faded.steps
}

func (s *Speed) fade(now time.Time) {
	if passed := now.Sub(s.at); passed > 0 && !s.at.IsZero() {
		keep := math.Exp(-passed.Seconds() / speedDecay.Seconds())
		s.taken *= keep
		s.expected *= keep
		s.steps *= keep
	}
	if now.After(s.at) {
		s.at = now
	}
}
