package offpolicy

import "time"

// What is added up of the samples, those of deterministic choices left out
// but for the last.
const (
	served   = iota // probability that the target does anything
	value           // of what was done
	valued          // samples of which a value is known
	model           // forecast of the value under the target
	forecast        // and of what was done
	ips             // weight times value
	weight          // of samples of which a value is known
	correct         // weight times (value - forecast)
	squared         // weight squared

	// Of all samples.
	allServed
	allValue
	allValued
	allModel
	allForecast

	switched // and from here on: correct, of weights up to each threshold
	width    = switched + thresholds
)

// sums is what some samples add up to.
type sums [width]float64

func (s *sums) add(o *sums) {
	for i := range s {
		s[i] += o[i]
	}
}

const (
	mostBins = 1024
	firstBin = 100 * time.Millisecond
)

// bins are sums over time, in stretches of equal length that double whenever
// there are too many. Those in which nothing happened are not there.
type bins struct {
	began  time.Time
	length time.Duration
	all    []bin
}

type bin struct {
	number int64 // of the stretch, from the first on
	sums
}

// add adds what a sample at that time comes to. One that lies a little before
// the last counts to the last.
func (b *bins) add(at time.Time, s *sums) {
	if b.length == 0 {
		b.began, b.length = at, firstBin
	}
	number := int64(at.Sub(b.began) / b.length)
	if n := len(b.all); n > 0 && number <= b.all[n-1].number {
		b.all[n-1].add(s)
		return
	}
	b.all = append(b.all, bin{number, *s})
	for len(b.all) > mostBins {
		b.double()
	}
}

func (b *bins) double() {
	b.length *= 2
	kept := b.all[:0]
	for _, x := range b.all {
		x.number /= 2
		if n := len(kept); n > 0 && kept[n-1].number == x.number {
			kept[n-1].add(&x.sums)
			continue
		}
		kept = append(kept, x)
	}
	b.all = kept
}

func (b *bins) total() (t sums) {
	for i := range b.all {
		t.add(&b.all[i].sums)
	}
	return t
}
