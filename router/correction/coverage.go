package correction

import (
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
)

const (
	coverageGoal   = 0.9
	coverageMemory = 128 // outcomes that are remembered of a band
	coverageLeast  = 30  // under so many a band goes by what is known of all; under so many of all nothing is moved
	coverageMost   = 1.5 // furthest that a p90 is moved, in log

	// coverageSlack is how far above the outcome aimed at a p90 is put, in log:
	// where all outcomes are alike, rounding must not decide which is below it.
	coverageSlack = 1e-3

	// While load grows, the last outcomes are better than the next: the share of
	// them that is aimed at rises by levelGain of what more than one in ten has
	// missed, within bounds (adaptive conformal inference, Gibbs and Candes 2021).
	levelGain     = 0.01
	levelLeast    = -0.05
	levelMost     = 0.08
	coverageBands = 8
)

// Coverage moves the p90 forecasts of one LLM to where nine in ten of the last
// outcomes would have stayed below them, in every band of load: forecasts are
// sure of other things when an endpoint is idle than when it has a queue. It
// goes by where outcomes came, not by whether the moved forecast missed, so that
// outcomes that come late, as those of a queue do, don't make it swing. The zero
// value moves nothing.
type Coverage struct {
	ttft, tpot bands
}

// bands are the outcomes of each band of load, and of all.
type bands struct {
	all recent
	own [coverageBands]recent
}

// LoadOf is the load of an endpoint that coverage goes by: the requests there,
// which are those of this router or, if more, those the endpoint reports.
func LoadOf(l *feature.Load) float64 {
	if reported := l.Scraped.Waiting + l.Scraped.Running; reported > l.Ledger.Requests {
		return reported
	}
	return l.Ledger.Requests
}

// bandOf is 0 for an idle endpoint and one higher for each doubling.
func bandOf(load float64) int {
	if !(load >= 1) {
		return 0
	}
	return min(coverageBands-1, 1+math.Ilogb(load))
}

// Said is what a request was forecast.
type Said struct {
	Plain     feature.Forecast // as the bundle and the prior said, tempered
	Corrected feature.Forecast // and after the correction
	Load      float64          // of the endpoint then, see LoadOf
	Overdue   bool             // Overdue was told of it
}

// Observe adds one outcome.
func (c *Coverage) Observe(s *Said, ttft, tpot feature.Seconds) {
	c.ttft.add(s.Load, outcome{above(ttft, s.Plain.TTFT, s.Corrected.TTFT), ttft > s.Corrected.TTFT.P90, s.Overdue})
	c.tpot.add(s.Load, outcome{above(tpot, s.Plain.TPOT, s.Corrected.TPOT), tpot > s.Corrected.TPOT.P90, false})
}

// Overdue adds a request that still waits for its first token past the p90 it
// was given: a miss, of which Observe will tell by how much.
func (c *Coverage) Overdue(load float64) { c.ttft.add(load, outcome{math.Inf(1), true, false}) }

// above is how far an outcome came above the p90 that only its endpoint's offset
// had corrected, in log; NaN when that is not known.
func above(actual feature.Seconds, plain, corrected feature.Quantiles) float64 {
	return logRatio(actual, plain.P90) - logRatio(corrected.P50, plain.P50)
}

// outcome is where an outcome came.
type outcome struct {
	above   float64
	missed  bool // it came above the p90 as it was moved
	overdue bool // which has been told
}

func (b *bands) add(load float64, o outcome) {
	if o.above == o.above {
		b.all.add(o)
		b.own[bandOf(load)].add(o)
	}
}

func (b *bands) at(load float64) float64 {
	if own := &b.own[bandOf(load)]; own.n >= coverageLeast {
		return own.goal
	}
	return b.all.goal
}

// TTFT is what is added to the log of a p90 forecast of TTFT under a load.
func (c *Coverage) TTFT(load float64) float64 { return c.ttft.at(load) }

// TPOT is what is added to the log of a p90 forecast of TPOT under a load.
func (c *Coverage) TPOT(load float64) float64 { return c.tpot.at(load) }

// recent is the last outcomes, and what nine in ten of them are below.
type recent struct {
	kept    [coverageMemory]float32 // as they came
	sorted  [coverageMemory]float32 // the same, ascending
	n, next int
	level   float64 // what is aimed at beyond coverageGoal
	goal    float64
}

// add takes in an outcome; that of an overdue request takes the place of the
// oldest infinite one, if there still is one.
func (r *recent) add(o outcome) {
	place := r.next
	if o.overdue {
		for back := r.n; back > 0; back-- {
			if i := (r.next - back + coverageMemory) % coverageMemory; math.IsInf(float64(r.kept[i]), 1) {
				place = i
				break
			}
		}
	}
	r.sort(r.kept[place], float32(o.above), place == r.n)
	r.kept[place] = float32(o.above)
	if place == r.next {
		r.next = (r.next + 1) % coverageMemory
		r.n = min(r.n+1, coverageMemory)
	}
	if !o.overdue {
		by := coverageGoal - 1
		if o.missed {
			by = coverageGoal
		}
		r.level = min(levelMost, max(levelLeast, r.level+levelGain*by))
	}
	if r.n < coverageLeast {
		return
	}
	at := min(r.n, int(math.Ceil((coverageGoal+r.level)*float64(r.n+1)))) - 1
	r.goal = min(coverageMost, max(-coverageMost, float64(r.sorted[at])+coverageSlack))
}

// sort puts an outcome into sorted, in place of an old one unless it is one
// more. None is NaN.
func (r *recent) sort(old, now float32, more bool) {
	from := r.n // where there is a gap
	if !more {
		from, _ = slices.BinarySearch(r.sorted[:r.n], old)
	}
	to, _ := slices.BinarySearch(r.sorted[:r.n], now)
	if to > from {
		to-- // the gap closes below it
		copy(r.sorted[from:to], r.sorted[from+1:to+1])
	} else {
		copy(r.sorted[to+1:from+1], r.sorted[to:from])
	}
	r.sorted[to] = now
}
