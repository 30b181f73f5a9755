package trainer

import (
	"fmt"
	"sync"
	"time"
)

// readiness is what is known of the last cycles.
type readiness struct {
	mu   sync.Mutex
	well time.Time // end of the last cycle without an error; before the first, when the trainer was made
	err  error     // of the last cycle
}

func (r *readiness) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *readiness) succeeded(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.well, r.err = at, nil
}

// Ready returns nil while the trainer does what it is there for, and why not
// once its last cycle failed, or none ended without an error for three
// intervals of the schedule: that is how long a bundle stays fresh. A trainer
// that still waits for its first cycle is ready for that long; a cycle that
// left the work to another trainer counts as one without an error.
func (t *Trainer) Ready() error {
	t.ready.mu.Lock()
	well, err := t.ready.well, t.ready.err
	t.ready.mu.Unlock()
	if err != nil {
		return fmt.Errorf("the last refit failed: %w", err)
	}
	interval, err := t.config.Interval(well)
	if err != nil {
		return err
	}
	if since := time.Since(well); since > t.config.maxAge(interval) {
		return fmt.Errorf("no refit has ended without an error for %s, the schedule wants one every %s", since.Round(time.Second), interval.Round(time.Second))
	}
	return nil
}
