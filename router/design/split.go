package design

import "fmt"

// Split gives each request to the second arm with a probability, drawn for itself:
// the canary. Its arms meet in the same queues and caches, so their difference is
// not what one of them would do alone.
type Split struct {
	Share float64   // of the second arm, above 0 and below 1
	Arms  [2]string // the baseline first
}

// CanaryName is what a canary is called where a switchback is by its name, which
// therefore none has.
const CanaryName = "canary"

// Canary is the split of the canary, in which forecasts decide a share of the
// requests and the fallback the others.
func Canary(share float64, policy string) Split {
	return Split{Share: share, Arms: [2]string{"fallback", policy}}
}

// Check reports what can't work.
func (s *Split) Check() error {
	if !(s.Share > 0 && s.Share < 1) {
		return fmt.Errorf("share: %v is not above 0 and below 1", s.Share)
	}
	if err := checkArms(s.Arms); err != nil {
		return fmt.Errorf("arms: %w", err)
	}
	return nil
}
