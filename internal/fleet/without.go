package fleet

import (
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Without says which of its corrections a router does without, as none in
// production does: to measure what each is worth.
type Without struct {
	Speed  bool // no endpoint is known to be faster or slower than its profile
	Offset bool // what remains of an endpoint's forecasts is not learned
	Temper bool // differences between forecasts are believed as they are

	// Recompute is for how long decisions see endpoints as they were when the
	// first of them was made, as if they took the priors that went into one
	// forecast call for those of now. 0: each sees what was charged before it.
	Recompute time.Duration
}

// seen reports whether candidates stay as an earlier decision saw them, and
// forgets what was forecast for it.
func (r *router) seen(now time.Time) bool {
	v := &r.views
	if !v.known || !r.forecasts() || now.Sub(v.at) >= r.config.Without.Recompute {
		v.at = now
		return false
	}
	for i := range r.input.Candidates {
		c := &r.input.Candidates[i]
		c.Residual, c.Correction = feature.NoResidual, feature.Residual{}
	}
	return true
}

// factor is the speed factor of t that decisions see.
func (r *router) factor(t *target, now time.Time) float64 {
	if r.config.Without.Speed {
		return 1
	}
	return t.speed.Factor(now)
}
