package correction

import (
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Occupancy is the share of its time that an endpoint needs for what has come to
// it of late, whether it has done it yet or not: 1 is all of it, and above 1 its
// queue grows. The zero value has seen nothing.
type Occupancy struct {
	began, at time.Time
	sum       float64 // seconds of the endpoint, faded since they came
}

// occupancyWindow is the time constant: long enough that a burst which a queue
// takes is none, short beside the minutes that an endpoint takes to start.
const occupancyWindow = time.Minute

// Add counts a request that came at now and takes so much of the endpoint's time.
func (o *Occupancy) Add(now time.Time, takes feature.Seconds) {
	if o.began.IsZero() {
		o.began = now
	}
	o.sum = o.faded(now) + float64(takes)
	if now.After(o.at) {
		o.at = now
	}
}

// Share is the occupancy at now: of the last minute, or of the time since the
// first request where that is less, but of no less than ten seconds.
func (o *Occupancy) Share(now time.Time) float64 {
	if o.began.IsZero() {
		return 0
	}
	seen := max(settling, now.Sub(o.began)).Seconds() / occupancyWindow.Seconds()
	return o.faded(now) / (occupancyWindow.Seconds() * -math.Expm1(-seen))
}

// faded is the sum as it is worth at now.
func (o *Occupancy) faded(now time.Time) float64 {
	return o.sum * math.Exp(-max(0, now.Sub(o.at).Seconds())/occupancyWindow.Seconds())
}
