package fleet

import "time"

// Without says which of its corrections a router does without, as none in
// production does: to measure what each is worth.
type Without struct {
	Speed  bool // no endpoint is known to be faster or slower than its profile
	Offset bool // what remains of an endpoint's forecasts is not learned
}

// factor is the speed factor of t that decisions see.
func (r *router) factor(t *target, now time.Time) float64 {
	if r.config.Without.Speed {
		return 1
	}
	return t.speed.Factor(now)
}
