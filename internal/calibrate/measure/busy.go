package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/pool"
)

// idle is an error when the engine has more requests than ours, or does not
// tell.
func idle(r pool.Reading, ours int) error {
	if feature.IsUnknown(r.Running) || feature.IsUnknown(r.Waiting) {
		return fmt.Errorf("%w: its metrics do not say how many requests run and wait", ErrUnwatched)
	}
	if others := int(r.Running+r.Waiting) - ours; others > 0 {
		return fmt.Errorf("%w: %d requests run and %d wait, %d of them ours", ErrBusy, int(r.Running), int(r.Waiting), ours)
	}
	return nil
}

// learnCounter finds out, after the probes, whether the engine counts the
// tokens it generates. Some count requests, and some nothing.
func (e *Endpoint) learnCounter(ctx context.Context) error {
	if e.config.Force {
		return nil
	}
	r, err := e.metrics(ctx)
	e.countsTokens = r.Work-e.work > float64(e.generated)/probeOutput
	return err
}

// others is an error when the engine has generated tokens that are not ours: a
// request may come and go between two looks. A counter that is late hides some
// and accuses nobody.
func (e *Endpoint) others(r pool.Reading) error {
	if more := r.Work - e.work - float64(e.generated); e.countsTokens && more > 0 {
		return fmt.Errorf("%w: it generated %.0f tokens for others meanwhile", ErrBusy, more)
	}
	return nil
}

// metricsAgain is the time between two looks at the metrics.
const metricsAgain = 250 * time.Millisecond

// patience is how long the metrics may take to show that our own requests have
// ended: engines publish them at the end of a step.
const patience = 2 * time.Second

// settle waits until nothing runs at the engine.
func (e *Endpoint) settle(ctx context.Context) error {
	if e.config.Force {
		return nil
	}
	tick := time.NewTicker(metricsAgain / 10)
	defer tick.Stop()
	for begun := time.Now(); ; {
		reading, err := e.metrics(ctx)
		if err == nil {
			if err = idle(reading, 0); err == nil {
				return e.others(reading)
			}
		}
		if !errors.Is(err, ErrBusy) || time.Since(begun) > patience {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// watch ends a measurement, by cancel, as soon as the engine has more requests
// than ours. It returns when ctx ends.
func (e *Endpoint) watch(ctx context.Context, ours int, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(metricsAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		reading, err := e.metrics(ctx)
		if err != nil {
			continue // the look after the measurement tells
		}
		if err := idle(reading, ours); errors.Is(err, ErrBusy) {
			cancel(err)
			return
		}
	}
}
