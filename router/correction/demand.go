package correction

import "time"

// Bound says what limits the fleet at the present traffic.
type Bound uint8

// The bounds.
const (
	Unsettled    Bound = iota // too little seen yet
	DecodeBound               // prefill is a small part of what endpoints could do
	PrefillBound              // prefill is what there is too little of
)

const (
	prefillBound = 0.40 // prefill utilisation above which prefill binds
	hysteresis   = 0.20 // share of it on either side within which the answer stays

	demandWindow = time.Minute
	// settling is how much must be seen. With 5, 10 or 20 s simulated retrieval at
	// 80 % of its knee is found prefill-bound, and fares as with token-load from the
	// beginning; what decides without an answer costs it a quarter more of TTFT p99.
	settling = 10 * time.Second
)

// Demand is the prefill work sent over the last minute, and what that says of
// the traffic. Make it with NewDemand.
type Demand struct {
	began  time.Time
	second [60]float64
	at     int64
	bound  Bound
}

// NewDemand begins to count at a time.
func NewDemand(began time.Time) Demand { return Demand{began: began} }

// Add counts uncached prompt tokens sent to an endpoint at now.
func (d *Demand) Add(now time.Time, uncachedTokens float64) {
	d.advance(now)
	d.second[d.at%60] += uncachedTokens
}

func (d *Demand) advance(now time.Time) {
	s := now.Unix()
	for i := range min(60, max(0, s-d.at)) {
		d.second[(s-i)%60] = 0
	}
	d.at = max(d.at, s)
}

// perSecond is the mean over the last minute, or since d began.
func (d *Demand) perSecond(now time.Time) float64 {
	d.advance(now)
	var sum float64
	for _, w := range d.second {
		sum += w
	}
	return sum / min(demandWindow, now.Sub(d.began)).Seconds()
}

// Bound is what binds by the traffic of the last minute, on endpoints whose
// peak prefill throughputs sum to that many tokens/s: prefill above 40 %
// utilisation, decode below, with a hysteresis of 20 % of it. Until ten seconds
// have been seen, or without a throughput, it is Unsettled.
func (d *Demand) Bound(now time.Time, peakThroughput float64) Bound {
	if now.Sub(d.began) < settling || !(peakThroughput > 0) {
		return Unsettled
	}
	utilisation := d.perSecond(now) / peakThroughput
	switch {
	case utilisation > prefillBound*(1+hysteresis):
		d.bound = PrefillBound
	case utilisation < prefillBound*(1-hysteresis):
		d.bound = DecodeBound
	case d.bound == Unsettled:
		d.bound = DecodeBound
		if utilisation > prefillBound {
			d.bound = PrefillBound
		}
	}
	return d.bound
}

// Last is what Bound said last.
func (d *Demand) Last() Bound { return d.bound }
