package physics

import (
	"math"

	"github.com/spillway-llm/spillway/internal/feature"
)

const (
	// decodeBudgetFloor is the least of the token budget that decoding
	// sequences leave to prefill in one step.
	decodeBudgetFloor = 512
	// headCreditShare and headElapsedShare bound how much of the prompt being
	// prefilled right now is believed to be done: at most 90 % of its work,
	// and of the time it has had (the rest went to steps of others).
	headCreditShare  = 0.97
	headElapsedShare = 0.97
	// interference is how much of the prefill rate shows up as time taken
	// from decoding, and maxInterference the most of all time it may take.
	interference    = 1.2
	maxInterference = 0.85
	mostStolen      = 0.98 // of which nothing comes while a step is bounded
	// foreignSlack is how many of the running requests that an endpoint reports
	// are not taken for decoding ones: a scrape is up to an interval old, so some
	// of what it counted has ended, and some are in prefill.
	foreignSlack = 2
)

// Work is the prefill time of u uncached tokens at the end of a prompt of p
// tokens, steps not counted.
func (c Coefficients) Work(p, u float64) feature.Seconds {
	return feature.Seconds(c.B*u + c.C*u*(p-u/2))
}

// Step is the time of one decode step with that many sequences reading that
// many context tokens.
func (c Coefficients) Step(decoding, kv float64) feature.Seconds {
	return feature.Seconds(c.A + c.D*decoding + c.E*kv)
}

// Estimate is c.Prior of a request and a load.
func Estimate(c Coefficients, r feature.Request, l feature.Load) feature.Prior {
	return c.Prior(&r, &l)
}

// Prior is the prior of request r on an endpoint under load l, whose class has
// the coefficients c. The load's speed factor scales all of them; an unknown one
// is 1. Neither is kept: a load is large, and nothing is copied.
//
//	TTFT0 = rest of the running step + own prefill and its steps
//	      + queue: prefill sent before and its steps, less what is done of it
//	      + admission: steps until there is room
//	TPOT0 = step at the batch this request would join
//	      + interference: what prefill takes from decoding
func (c Coefficients) Prior(r *feature.Request, l *feature.Load) feature.Prior {
	if s := l.Profile.SpeedFactor; s > 0 {
		c = c.Scaled(s)
	}
	led := &l.Ledger
	decoding, kv := batch(l)
	inflight := max(led.Requests, decoding)
	uncached := r.UncachedTokens()

	step := float64(c.Step(decoding, kv))
	own := float64(c.Work(r.PromptTokens, uncached))
	ahead := c.B*led.PrefillTokens + c.C*led.PrefillContext
	budget := max(decodeBudgetFloor, l.Profile.MaxBatchedTokens-decoding)
	if budget != budget {
		budget = decodeBudgetFloor
	}
	ahead += led.PrefillTokens / budget * step
	// What is in prefill now: the oldest, or as many as one step holds.
	now := max(c.B*led.HeadTokens+c.C*led.HeadContext+led.HeadTokens/budget*step, ahead*min(1, budget/max(1, led.PrefillTokens)))
	queue := max(0, ahead-min(headCreditShare*now, headElapsedShare*known(float64(led.HeadElapsed))))
	running := 0.0 // an idle engine starts at once
	if inflight > 0 {
		running = 0.5 * step
	}

	seqs := inflight + r.Completions
	if most := l.Profile.MaxNumSeqs; most > 0 {
		seqs = min(seqs, max(most, r.Completions))
	}
	read := kv + led.WaitingContext + r.Completions*(r.PromptTokens+known(r.ExpectedOutputTokens)/2)
	if capacity := l.Profile.KVCapacityTokens; capacity > 0 {
		read = min(read, max(capacity, r.PromptTokens))
	}
	// Prefill takes its share of the time, but of a step no more than it may hold.
	most := max(decodeBudgetFloor, known(l.Profile.MaxBatchedTokens))
	plain := float64(c.Step(seqs, read))
	tpot := min(plain/(1-min(mostStolen, stolen(c, led))), plain+float64(c.Work(most, most)))

	wait := step * admission(&c, r, l, inflight, kv)
	start := running + own + math.Ceil(uncached/budget)*step
	return feature.Prior{
		TTFT: feature.Seconds(start + queue + wait), TPOT: feature.Seconds(tpot),
		Queue: feature.Seconds(queue), Admission: feature.Seconds(wait), Interference: feature.Seconds(tpot - plain),
	}
}

// Stolen is the share of its time, from 0 to 0.85, that an endpoint takes from
// decoding for the prefill that it is sent.
func Stolen(c Coefficients, l *feature.Ledger) float64 {
	return min(maxInterference, stolen(c, l))
}

// stolen is the same without a bound.
func stolen(c Coefficients, l *feature.Ledger) float64 {
	return interference * (c.B*l.PrefillRate + c.C*l.PrefillContextRate)
}

// batch is how many sequences decode at the endpoint and the context tokens
// they read: our own, or what the endpoint reports if that is more, as it is
// where others send requests too. Taking the larger of both, rather than
// adding what cannot be ours, never lets the batch shrink while any number of
// the load grows.
func batch(l *feature.Load) (decoding, kv float64) {
	decoding, kv = l.Ledger.Decoding, l.Ledger.ContextTokens
	reported := l.Scraped.Running - foreignSlack
	if !(reported > 0) { // none, or never scraped
		return decoding, kv
	}
	used := l.Scraped.KVUsed * l.Profile.KVCapacityTokens * reported / l.Scraped.Running
	return max(decoding, reported), max(kv, known(used))
}

// admission is how many decode steps pass until r has a sequence and the blocks
// that it needs; 0 when it fits now. Requests are admitted in the order in which
// they came. So r waits until enough of those that run have ended for it, and,
// as far as those that wait before it don't fit either, for what they will take
// of the endpoint: sequences times steps of its sequences, tokens times steps of
// its cache. Where prompts begin alike an engine holds the beginning once, so that
// who comes needs less room than its prompt is long, and those in flight hold less;
// see alone.
func admission(c *Coefficients, r *feature.Request, l *feature.Load, inflight, kv float64) float64 {
	led := &l.Ledger
	var wait float64
	if most := l.Profile.MaxNumSeqs; most > 0 {
		wait = queued(&led.Remaining, inflight+r.Completions-most, r.Completions, most-led.Decoding, led.WaitingOutput/most)
	}
	if capacity := l.Profile.KVCapacityTokens; capacity > 0 {
		a, uncached := alone(led), r.UncachedTokens()
		own := uncached + a*max(0, r.PromptTokens-uncached)
		need := held(c, l, kv) + own - capacity
		wait = max(wait, queued(&led.RemainingContext, need, own, capacity-a*kv, a*led.WaitingStay/capacity))
	}
	return wait
}

// alone is the share of the tokens of the requests in flight that are held for one
// of them alone, or counted here for the first of several: 1 where none begin alike.
// What is cached of the next request is taken to be held for others as often.
func alone(l *feature.Ledger) float64 {
	all := l.ContextTokens + l.WaitingContext
	if !(l.SharedContext > 0) || !(all > 0) {
		return 1
	}
	return max(0, 1-l.SharedContext/all)
}

// queued is how many steps pass until own of something is there for a request,
// where need is missing for it and for what waits before it, beyond what is free.
// What waits takes that many steps in all.
func queued(histogram *[feature.RemainingBuckets]float64, need, own, free, steps float64) float64 {
	if !(need > 0) {
		return 0
	}
	return remaining(histogram, min(need, own)) + steps*need/(need+max(0, free))
}

// held is how many tokens of the cache are taken once all is admitted that was
// sent: what our own requests hold, each shared beginning once, or what the
// endpoint reported and was sent since, if that is less.
func held(c *Coefficients, l *feature.Load, kv float64) float64 {
	led := &l.Ledger
	own := max(kv+led.WaitingContext-led.SharedContext, 0)
	s := &l.Scraped
	reported := s.KVUsed * l.Profile.KVCapacityTokens
	a := alone(led)
	reported += a*led.SinceScrapeContext + led.PrefillTokens
	reported += min(float64(s.Age)/c.B, led.PrefillRate*float64(s.Age)) + led.Decoding*float64(s.Age)/float64(c.Step(led.Decoding, 0))
	if s.Waiting > 0 {
		reported += a * led.WaitingContext
	}
	if reported < own { // false for what was never scraped
		return reported
	}
	return own
}

// remaining is after how many more output tokens the soonest-ending requests
// of a histogram have freed need of what it counts. Inside a bucket ends are
// taken as evenly spread; past the last one nothing more can be promised.
func remaining(histogram *[feature.RemainingBuckets]float64, need float64) float64 {
	if !(need > 0) {
		return 0
	}
	longest := 0.0
	for i, n := range histogram {
		if n <= 0 {
			continue
		}
		from := math.Exp2(float64(i))
		if i == 0 {
			from = 0
		}
		to := math.Exp2(float64(i + 1))
		if need <= n {
			return from + (to-from)*need/n
		}
		need -= n
		longest = to
	}
	return longest
}

// known turns an unknown number into 0.
func known(v float64) float64 {
	if v != v {
		return 0
	}
	return v
}
