package fleet

import (
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
)

// views is what the candidates in router.input describe. With many endpoints
// most of them are as they were for the request before, so only those that
// something happened to are described again.
//
// What time alone changes of a load (ages, rates, the fading speed factor), and
// what each token of an answer does (context, remaining output), is read by
// forecasts and nothing else: for these everybody is described every time.
type views struct {
	known bool // every candidate was described once
	stale []int
	warm  []int     // with cached tokens
	peak  float64   // sum of peak prefill throughputs
	until time.Time // until then no standing changes by itself
	at    time.Time // of the decision that candidates were described for
}

// changed says that something happened at a target.
func (r *router) changed(t *target) {
	if !t.stale {
		t.stale = true
		r.views.stale = append(r.views.stale, t.number)
	}
}

// hotWindow is how long ago a prefix was used that is still worth keeping.
const hotWindow = time.Minute

// view describes the request and the candidates as ledger, index and what was
// learned show them now. It returns the sum of peak prefill throughputs.
func (r *router) view(q *query, now time.Time) (peak float64) {
	prompt := float64(q.promptTokens)
	in, v := &r.input, &r.views
	var arm Arm
	arm, r.part = r.arm(now)
	in.Policy, in.Fallback, in.Settings = arm.Policy, arm.Fallback, arm.Settings
	in.Request = policy.Request{
		PromptTokens:         prompt,
		ExpectedOutputTokens: r.output.Expect(prompt, feature.Unknown),
		MaxOutputTokens:      feature.Unknown,
		Completions:          1,
		SLOTTFT:              objective(q.asks.TTFT),
		SLOTPOT:              objective(q.asks.TPOT),
		Priority:             float64(q.asks.Priority),
	}
	if !r.seen(now) {
		if !v.known || now.After(v.until) || r.always || r.forecasts() {
			r.describeAll(now)
		}
		for _, i := range v.stale {
			r.describe(i, now)
		}
		v.stale = v.stale[:0]
	}
	if in.Policy == policy.WeightedBlend { // nothing else asks for it
		for i, t := range r.targets {
			in.Candidates[i].ColdAgo = t.coldAgo(now)
		}
	}
	r.learn(now)
	r.cached(q)
	return v.peak
}

// objective is one that a request has, or does not have.
func objective(d time.Duration) feature.Seconds {
	if d == 0 {
		return feature.Seconds(feature.Unknown)
	}
	return feature.SecondsOf(d)
}

// describeAll describes every candidate.
func (r *router) describeAll(now time.Time) {
	in, v := &r.input, &r.views
	in.Candidates = slices.Grow(in.Candidates[:0], len(r.targets))[:len(r.targets)]
	v.known, v.stale, v.peak, v.until = true, v.stale[:0], 0, now.Add(r.config.ScrapeMaxAge)
	for i := range r.targets {
		r.describe(i, now)
		v.peak += in.Candidates[i].Load.Profile.PeakPrefillThroughput
	}
}

// describe writes all but the cached tokens of a candidate in place: copies
// would be most of the time it takes.
func (r *router) describe(i int, now time.Time) {
	t, c := r.targets[i], &r.input.Candidates[i]
	t.stale = false
	c.Endpoint, c.Class = t.id, t.class
	c.Coefficients = t.profile.Coefficients
	c.Residual, c.Correction = feature.NoResidual, feature.Residual{}
	c.ColdAgo = t.coldAgo(now)
	c.HotTokens, c.SpeedSteps = feature.Unknown, t.speed.Steps(now)
	if r.forecasts() {
		c.HotTokens = r.index.Hot(t.slot, now, hotWindow)
	}
	c.Standing = policy.Dated
	if fresh := t.scrapedAt.Add(r.config.ScrapeMaxAge); !t.scrapedAt.IsZero() && !now.After(fresh) {
		c.Standing = policy.Good
		if fresh.Before(r.views.until) {
			r.views.until = fresh
		}
	}
	r.load(&c.Load, t, now)
}

// coldAgo is how long ago t was last given a request that nobody held a prefix
// of.
func (t *target) coldAgo(now time.Time) feature.Seconds {
	if t.coldAt.IsZero() {
		return feature.Seconds(feature.Unknown)
	}
	return feature.SecondsOf(now.Sub(t.coldAt))
}

// load writes everything known of a target's load.
func (r *router) load(l *feature.Load, t *target, now time.Time) {
	l.Scraped = feature.Scraped{Waiting: t.waiting, Running: t.running, KVUsed: t.kvUsed, Age: feature.Seconds(feature.Unknown)}
	l.Ledger = r.ledger.State(t.id, 0, now, t.scrapedAt)
	l.Profile = feature.Profile{
		PeakPrefillThroughput: t.profile.PeakPrefillThroughput,
		MaxBatchedTokens:      float64(t.profile.MaxBatchedTokens),
		MaxNumSeqs:            float64(t.profile.MaxNumSeqs),
		KVCapacityTokens:      float64(t.profile.KVCapacityTokens),
		SpeedFactor:           r.factor(t, now),
	}
	if !t.scrapedAt.IsZero() {
		l.Scraped.Age = max(0, feature.SecondsOf(now.Sub(t.scrapedAt)))
	}
	if t.kvCapacity > 0 {
		l.Profile.KVCapacityTokens = t.kvCapacity
	}
}

// cached writes what each candidate is believed to have of a prompt. Of the
// index, which met them in the same order, a candidate's slot is its number.
func (r *router) cached(q *query) {
	candidates, v := r.input.Candidates, &r.views
	for _, i := range v.warm {
		candidates[i].CachedTokens = 0
	}
	v.warm = v.warm[:0]
	if len(q.chain) == 0 {
		return
	}
	r.matches = slices.Grow(r.matches[:0], len(candidates))[:len(candidates)]
	r.index.Match(q.chain, r.matches)
	for i, blocks := range r.matches {
		if blocks > 0 {
			candidates[i].CachedTokens = r.held(i, q, int(blocks))
			v.warm = append(v.warm, i)
		}
	}
}
