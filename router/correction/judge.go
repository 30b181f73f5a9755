package correction

import (
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// The rules by which outcomes say that forecasts are not to be believed.
const (
	judgedOutcomes = 200                   // the last ones are looked at
	judgedLeast    = 50                    // under so many nothing is judged
	wrongRatio     = 1.5                   // more than half of them further than this from their p50, as a factor
	wrongCoverage  = 0.75                  // fewer than this share at or about below their p90
	wrongMargin    = 1.2                   // further above their p90 than this, as a factor; see Judge
	missedApart    = 25 * time.Millisecond // requests dispatched nearer to each other were covered, or not, together
	judgedTokens   = 32                    // an answer of fewer says nothing of TPOT: one step with a prefill in it may be half of it
	pairWindow     = 5 * time.Second       // two outcomes dispatched within it saw about the same fleet
	pairRatio      = 1.05                  // forecasts closer than this, as a factor, order nothing
	pairsWaiting   = 8                     // outcomes that still look for a second one
	z99            = 2.5758                // of a 99 % interval
)

// A Settled is one outcome beside what was forecast of it.
type Settled struct {
	Endpoint     string
	DispatchedAt time.Time
	Forecast     feature.Forecast // corrected: as the decision was made with it
	TTFT         feature.Seconds  // measured; unknown values are skipped
	TPOT         feature.Seconds
	OutputTokens float64 // behind TPOT
	Overdue      bool    // Overdue was told of it
}

// A Judge says from the last 200 outcomes of one LLM whether its forecasts are
// wrong: half of them off by more than 1.5 times, fewer than 75 % below their p90,
// or pairs of endpoints put in the wrong order more often than a coin would, with
// 99 % confidence. From 50 outcomes on the first two rules hold with 99 %
// confidence too. TTFT and TPOT are judged apart. The zero value has seen nothing.
// It never allocates.
//
// Outcomes that end together were slowed together. Where forecasts are so good
// that their p90 is 5 % above their p50, the tide of the load carries a quarter of
// 200 outcomes just above it now and then; only those a fifth above count as
// missed, and of requests dispatched within 25 ms of each other one counts. And a
// TTFT need not have come to be known to be late: see Overdue.
type Judge struct{ ttft, tpot trial }

// Observe takes in one outcome.
func (j *Judge) Observe(s *Settled) {
	j.ttft.observe(s, s.Forecast.TTFT, s.TTFT, !s.Overdue)
	if s.OutputTokens >= judgedTokens {
		j.tpot.observe(s, s.Forecast.TPOT, s.TPOT, true)
	}
}

// Overdue takes in a request that still waits for its first token and is Refuted, once.
// What comes of it is to be observed with Overdue set.
func (j *Judge) Overdue() {
	j.ttft.far.add(true)
	j.ttft.missed.add(true)
}

// Refuted reports whether a request that has waited that long for its first token has
// refuted its forecast, whatever comes of it.
func Refuted(f *feature.Forecast, waited feature.Seconds) bool {
	return f.Known() && waited > max(wrongRatio*f.TTFT.P50, wrongMargin*f.TTFT.P90)
}

// Fault says what is wrong, in one of a few fixed sentences; empty when
// nothing is, or too little was seen.
func (j *Judge) Fault() string {
	switch {
	case j.ttft.off():
		return "TTFT is off by more than 1.5 times in half of the outcomes"
	case j.tpot.off():
		return "TPOT is off by more than 1.5 times in half of the outcomes"
	case j.ttft.uncovered():
		return "under 75 % of TTFTs are within their p90"
	case j.tpot.uncovered():
		return "under 75 % of TPOTs are within their p90"
	case j.ttft.disordered():
		return "TTFT forecasts order endpoints worse than chance"
	case j.tpot.disordered():
		return "TPOT forecasts order endpoints worse than chance"
	}
	return ""
}

// Reset forgets all outcomes: those of another bundle say nothing of this one.
func (j *Judge) Reset() { *j = Judge{} }

// trial is what is known of one latency.
type trial struct {
	far, missed, reversed flags
	covered               time.Time // dispatch of the last request that missed tells of
	waiting               [pairsWaiting]half
	next                  int // place of the oldest in waiting
}

// half is an outcome that waits to be one of a pair. No outcome is in two
// pairs, so that pairs are about independent.
type half struct {
	endpoint         string // empty: none
	at               time.Time
	forecast, actual float64 // logarithms
}

// observe takes in an outcome; whether it was far off counts unless that was known
// before.
func (t *trial) observe(s *Settled, q feature.Quantiles, actual feature.Seconds, counts bool) {
	miss := logRatio(actual, q.P50)
	if math.IsNaN(miss) {
		return
	}
	if counts {
		t.far.add(math.Abs(miss) > math.Log(wrongRatio))
		if s.DispatchedAt.Sub(t.covered).Abs() >= missedApart {
			t.covered = s.DispatchedAt
			t.missed.add(actual > wrongMargin*q.P90)
		}
	}
	t.pair(half{s.Endpoint, s.DispatchedAt, math.Log(float64(q.P50)), math.Log(float64(actual))})
}

// pair finds h a second outcome, the newest that fits, or lets it wait for one
// in the place of the oldest.
func (t *trial) pair(h half) {
	for back := 1; back <= pairsWaiting; back++ {
		other := &t.waiting[(t.next-back+pairsWaiting)%pairsWaiting]
		if other.endpoint == "" || other.endpoint == h.endpoint || h.at.Sub(other.at).Abs() > pairWindow {
			continue
		}
		forecast, actual := h.forecast-other.forecast, h.actual-other.actual
		if math.Abs(forecast) < math.Log(pairRatio) || !(math.Abs(actual) > 0) {
			continue
		}
		t.reversed.add(forecast*actual < 0)
		*other = half{}
		return
	}
	t.waiting[t.next] = h
	t.next = (t.next + 1) % pairsWaiting
}

func (t *trial) off() bool { return t.far.exceeds(0.5) }

func (t *trial) uncovered() bool { return t.missed.exceeds(1 - wrongCoverage) }

// disordered reports whether more than half of the pairs are reversed, for
// sure.
func (t *trial) disordered() bool { return t.reversed.judged() && t.reversed.least() > 0.5 }

// flags are the last 200 answers to one question.
type flags struct {
	said      [judgedOutcomes]bool
	n, at, of int // of is how many of the n say yes
}

func (f *flags) add(yes bool) {
	if f.n < judgedOutcomes {
		f.n++
	} else if f.said[f.at] {
		f.of--
	}
	f.said[f.at] = yes
	if yes {
		f.of++
	}
	f.at = (f.at + 1) % judgedOutcomes
}

func (f *flags) judged() bool { return f.n >= judgedLeast }

// exceeds reports whether more than the share say yes: as counted once all 200
// are there, and before that for sure. A rule that is looked at after every
// outcome must not go by the luck of the first fifty.
func (f *flags) exceeds(share float64) bool {
	if f.n == judgedOutcomes {
		return f.share() > share
	}
	return f.judged() && f.least() > share
}

// least is the lower end of Wilson's 99 % interval of the share.
func (f *flags) least() float64 {
	p, n := f.share(), float64(f.n)
	return (p + z99*z99/(2*n) - z99*math.Sqrt(p*(1-p)/n+z99*z99/(4*n*n))) / (1 + z99*z99/n)
}

func (f *flags) share() float64 { return float64(f.of) / float64(f.n) }
