package route

import (
	"errors"
	"time"
)

// LongestDrill bounds a fallback drill, which nobody may remember to end.
const LongestDrill = 10 * time.Minute

// Drill lets the fallback decide in every LLM's place for so long, as if
// forecasts were away, so that people see what happens when they are; 0 ends a
// drill. Forecasts are asked for meanwhile and judged as ever.
//
// It is an error for longer than LongestDrill, and in mode switchback, whose
// experiment it would spoil.
func (r *Router) Drill(length time.Duration) error {
	switch {
	case length < 0 || length > LongestDrill:
		return errors.New("a fallback drill takes at most " + LongestDrill.String())
	case r.config.Mode == ModeSwitchback:
		return errors.New("a fallback drill would spoil the experiment of mode switchback")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if length == 0 {
		r.drill = time.Time{}
		r.log.Info("a fallback drill was ended")
		return nil
	}
	r.drill = time.Now().Add(length)
	r.log.Info("a fallback drill begins: forecasts decide nothing", "until", r.drill)
	return nil
}
