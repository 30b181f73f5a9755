package drift

import (
	"math"
	"time"
)

// A Detector notices when the mean of a series moves: the two-sided test of
// Page and Hinkley (Page 1954, Hinkley 1971) against the mean of the series
// itself. It adds up by how much more than the slack the values lie above that
// mean, and below it, never less than 0, and alarms when a sum passes the
// threshold. While a sum grows, the mean stands still: it must not follow what
// it is there to notice.
//
// Values are clipped to within 1 of the mean, so that no outlier weighs more
// than a few ordinary values. The zero value is of no use; see Residuals and
// Misses.
type Detector struct {
	slack     float64 // a move that is let pass, in the unit of the values
	threshold float64 // of the sums, at least
	steady    float64 // of the sums, for each unit of the series' own variance

	mean, weight float64 // of the values, and how many of them it is made of
	above, below side    // the sums
	limit        float64 // of the sums, once the reference is complete

	// The variance of sums of neighbours, a batch each: what one moment makes
	// alike adds up, and chance then looks like a move.
	batch   float64
	squares float64
}

// side is a sum, and the time of the first value since it was 0.
type side struct {
	sum  float64
	from time.Time
}

func (s *side) add(at time.Time, by float64) {
	if s.sum == 0 {
		s.from = at
	}
	s.sum = max(0, s.sum+by)
}

const (
	// Reference is how many values a Detector knows a series by before it tests
	// anything.
	Reference = 200

	clip       = 1.0
	batchSize  = 10
	mostWeight = 1000 // values that the mean is made of: slower moves are followed
	quietShare = 8    // the mean follows while both sums are under this part of the limit
)

// Residuals is a detector for ln(actual/forecast), in log units. A move by 13 %
// (0.12) is let pass for ever; one by 1.3 (0.26) is told after about 120
// values. See the tests for how seldom it alarms while nothing moves.
func Residuals() Detector {
	return Detector{slack: 0.12, threshold: 16, steady: 60}
}

// Misses is a detector for the share of outcomes above their p90: 1 for a
// miss, 0 otherwise. A move by 5 points is let pass; coverage that falls from
// 90 to 75 % is told after about 130 outcomes.
func Misses() Detector { return Detector{slack: 0.05, threshold: 15, steady: 120} }

// Add takes the next value, which is of the time at, and reports whether the mean
// has moved, and since when: the sum that tells it has grown from 0 since then. A
// value that is unknown is skipped. After an alarm the detector begins anew, with
// the values to come as its reference.
func (d *Detector) Add(at time.Time, x float64) (since time.Time, moved bool) {
	if math.IsNaN(x) {
		return since, false
	}
	x = min(d.mean+clip, max(d.mean-clip, x))
	if d.limit == 0 {
		d.learn(x)
		return since, false
	}
	d.above.add(at, x-d.mean-d.slack)
	d.below.add(at, d.mean-x-d.slack)
	most := d.most()
	if most.sum > d.limit {
		d.Reset()
		return most.from, true
	}
	if most.sum < d.limit/quietShare {
		d.follow(x)
	}
	return since, false
}

// rising returns since when the greater sum has grown from 0; false while it is
// under a quarter of what alarms.
func (d *Detector) rising() (since time.Time, ok bool) {
	most := d.most()
	return most.from, d.limit > 0 && most.sum > d.limit/4
}

func (d *Detector) most() side {
	if d.below.sum > d.above.sum {
		return d.below
	}
	return d.above
}

// learn adds x to the reference.
func (d *Detector) learn(x float64) {
	d.follow(x)
	d.batch += x
	n := int(d.weight)
	if n%batchSize == 0 {
		d.squares += d.batch * d.batch
		d.batch = 0
	}
	if n == Reference {
		batches := float64(Reference / batchSize)
		ofBatch := batchSize * d.mean
		variance := (d.squares - batches*ofBatch*ofBatch) / (batches - 1) / batchSize
		d.limit = max(d.threshold, d.steady*variance)
	}
}

func (d *Detector) follow(x float64) {
	d.weight = min(mostWeight, d.weight+1)
	d.mean += (x - d.mean) / d.weight
}

// Reset forgets all values.
func (d *Detector) Reset() {
	*d = Detector{slack: d.slack, threshold: d.threshold, steady: d.steady}
}
