package correction

import (
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// The rules by which outcomes say that forecasts are not to be believed; see Judge.
const (
	wrongRatio    = 1.5             // more than half of them further than this from their p50, as a factor
	wrongCoverage = 0.75            // fewer than this share at or about below their p90
	wrongMargin   = 1.2             // further above their p90 than this, as a factor
	nearerRatio   = 1.2             // the prior alone is nearer by more than this, as a factor
	judgedTokens  = 32              // an answer of fewer says nothing of TPOT: one step with a prefill in it may be half of it
	sameFleet     = 5 * time.Second // two outcomes dispatched within it saw about the same fleet
	pairRatio     = 1.05            // forecasts closer than this, as a factor, order nothing
	pairsWaiting  = 8               // outcomes that still look for a second one
)

// A Settled is one outcome beside what was forecast of it.
type Settled struct {
	Endpoint     string
	DispatchedAt time.Time
	Plain        feature.Forecast // as the bundle and the prior said, tempered
	Forecast     feature.Forecast // corrected: as the decision was made with it
	TTFT         feature.Seconds  // measured; unknown values are skipped
	TPOT         feature.Seconds
	OutputTokens float64 // behind TPOT
	Overdue      bool    // Overdue was told of it
}

// A Judge says from the last outcomes of one LLM whether its forecasts are wrong:
// half of them are off by more than 1.5 times; or fewer than 75 % are below their p90;
// or more than half of the pairs of endpoints are put in the wrong order, which the
// prior alone puts right. The last 200 are looked at, by the first rule also the last 100,
// and the last 50, of which only those speak that have come and are further off, by more
// than 1.2 times, than the prior alone; of TPOT that goes for the 100, too. So where nobody
// could have known, as in a fleet that is full, little speaks
// against the bundle. Of the first two rules, all that was dispatched within 25 ms is one
// outcome, and so are the TTFTs of what came to one queue of a second or more within 5 s,
// of which one long prompt may make dozens late. TTFT and TPOT are judged apart: a rule is broken when it is
// so by more than chance explains in a day (see sure), and all are mended when none is any
// more as counted. The zero value has seen nothing. It never allocates.
//
// Where forecasts are so good that their p90 is 5 % above their p50, the tide of the
// load carries a quarter of 200 outcomes just above it now and then; only those a fifth
// above count as missed. And a TTFT need not have come to be known to be late: see
// Overdue.
type Judge struct {
	ttft, tpot trial
	fault      string
}

// Observe takes in one outcome.
func (j *Judge) Observe(s *Settled) {
	j.ttft.observe(s, of(s, ttft), s.TTFT, s.TTFT.Duration(), !s.Overdue)
	if s.OutputTokens >= judgedTokens {
		j.tpot.observe(s, of(s, tpot), s.TPOT, 0, true)
	}
	j.sum()
}

// Overdue takes in a request that still waits for its first token and is Refuted, once.
// What comes of it is to be observed with Overdue set.
func (j *Judge) Overdue(s *Settled) {
	// It is not known yet how far off the prior is.
	j.ttft.recent.add(s.Endpoint, s.DispatchedAt, patience(&s.Forecast).Duration(), [questions]bool{far: true, missed: true})
	j.sum()
}

// reopen forgets all outcomes. What was wrong stays so until as many as may be judged
// have come anew, of TTFT and of TPOT where there were so many, and bear the forecasts
// out; to be reopened again before that does not make them fewer.
func (j *Judge) reopen() {
	*j = Judge{ttft: trial{due: max(j.ttft.due, j.ttft.heard())}, tpot: trial{due: max(j.tpot.due, j.tpot.heard())}, fault: j.fault}
}

// Refuted reports whether a request that has waited that long for its first token has
// refuted its forecast, whatever comes of it.
func Refuted(f *feature.Forecast, waited feature.Seconds) bool {
	return f.Known() && waited > patience(f)
}

// patience is how long a request may wait for its first token and not refute its
// forecast.
func patience(f *feature.Forecast) feature.Seconds {
	return max(wrongRatio*f.TTFT.P50, wrongMargin*f.TTFT.P90)
}

// Fault says what is wrong, in one of a few fixed sentences; empty when
// nothing is, or too little was seen.
func (j *Judge) Fault() string { return j.fault }

// sum finds the fault. What was wrong is right again when no rule is broken as counted.
func (j *Judge) sum() {
	if j.fault == "" {
		j.fault = j.broken(sure)
	} else if j.ttft.heard() >= j.ttft.due && j.tpot.heard() >= j.tpot.due && j.broken(0) == "" {
		j.fault = ""
	}
}

func (j *Judge) broken(beyond float64) string {
	switch {
	case j.ttft.off(beyond, far):
		return "TTFT is off by more than 1.5 times in half of the outcomes"
	case j.tpot.off(beyond, misled):
		return "TPOT is off by more than 1.5 times in half of the outcomes"
	case j.ttft.uncovered(beyond):
		return "under 75 % of TTFTs are within their p90"
	case j.tpot.uncovered(beyond):
		return "under 75 % of TPOTs are within their p90"
	case j.ttft.disordered(beyond):
		return "TTFT forecasts order endpoints worse than chance"
	case j.tpot.disordered(beyond):
		return "TPOT forecasts order endpoints worse than chance"
	}
	return ""
}

// claim is what was said of one latency.
type claim struct {
	forecast feature.Quantiles
	prior    feature.Seconds
}

func ttft(f *feature.Forecast) (feature.Quantiles, float64) { return f.TTFT, f.Residual.TTFT.P50 }
func tpot(f *feature.Forecast) (feature.Quantiles, float64) { return f.TPOT, f.Residual.TPOT.P50 }

func of(s *Settled, latency func(*feature.Forecast) (feature.Quantiles, float64)) claim {
	forecast, _ := latency(&s.Forecast)
	plain, residual := latency(&s.Plain)
	return claim{forecast, plain.P50 * feature.Seconds(math.Exp(-residual))}
}

// trial is what is known of one latency.
type trial struct {
	recent   moments
	reversed window // pairs
	waiting  [pairsWaiting]half
	next     int // place of the oldest in waiting
	due      int // moments that must be heard before a fault from before reopen can end
}

// heard is how many moments were heard, as far as they are enough to be judged.
func (t *trial) heard() int { return min(judgedLeast, t.recent.answers[far].n) }

// half is an outcome that waits to be one of a pair. No outcome is in two
// pairs, so that pairs are about independent.
type half struct {
	endpoint                string // empty: none
	at                      time.Time
	forecast, prior, actual float64 // logarithms
}

// observe takes in an outcome, which a request waited so long for; whether it was far
// off counts unless that was known before.
func (t *trial) observe(s *Settled, c claim, actual feature.Seconds, waited time.Duration, counts bool) {
	off := logRatio(actual, c.forecast.P50)
	if math.IsNaN(off) {
		return
	}
	if counts {
		off = math.Abs(off)
		wide, late := off > math.Log(wrongRatio), actual > wrongMargin*c.forecast.P90
		nearer := !(off-math.Abs(logRatio(actual, c.prior)) <= math.Log(nearerRatio)) // the prior is, or not known
		t.recent.add(s.Endpoint, s.DispatchedAt, waited, [questions]bool{far: wide, misled: wide && nearer, missed: late, lulled: late && nearer})
	}
	t.pair(half{s.Endpoint, s.DispatchedAt, math.Log(float64(c.forecast.P50)), math.Log(float64(c.prior)), math.Log(float64(actual))})
}

// pair finds h a second outcome, the newest that fits, or lets it wait for one
// in the place of the oldest.
func (t *trial) pair(h half) {
	for back := 1; back <= pairsWaiting; back++ {
		other := &t.waiting[(t.next-back+pairsWaiting)%pairsWaiting]
		if other.endpoint == "" || other.endpoint == h.endpoint || h.at.Sub(other.at).Abs() > sameFleet {
			continue
		}
		forecast, actual := h.forecast-other.forecast, h.actual-other.actual
		if math.Abs(forecast) < math.Log(pairRatio) || !(math.Abs(actual) > 0) {
			continue
		}
		share := int32(0)
		if forecast*actual < 0 && !((h.prior-other.prior)*actual <= 0) {
			share = whole
		}
		t.reversed.push(share)
		*other = half{}
		return
	}
	t.waiting[t.next] = h
	t.next = (t.next + 1) % pairsWaiting
}

// off, uncovered and disordered are the three rules, broken by so many standard
// deviations. Of the last 100 outcomes off asks a question of its own.
func (t *trial) off(beyond float64, question int) bool {
	a := &t.recent.answers
	return a[misled].above(few, 0.5, beyond) || a[question].above(some, 0.5, beyond) || a[far].above(all, 0.5, beyond)
}

func (t *trial) uncovered(beyond float64) bool {
	return t.recent.answers[lulled].above(few, 1-wrongCoverage, beyond) || t.recent.answers[missed].above(all, 1-wrongCoverage, beyond)
}

func (t *trial) disordered(beyond float64) bool {
	return t.reversed.above(few, 0.5, beyond) || t.reversed.above(all, 0.5, beyond)
}
