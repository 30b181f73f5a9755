package policy

import (
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
)

// Terms are the parts of the cost that predicted minimises, in seconds. TTFT and
// Output are what the request itself is expected to take, and Impatience weighs
// the first of them more; the rest is what it does to others there, now and later.
type Terms struct {
	TTFT     feature.Seconds `json:"ttft"`     // forecast, p50
	Output   feature.Seconds `json:"output"`   // forecast TPOT, p50, times the expected output
	Eviction feature.Seconds `json:"eviction"` // of prefixes in use, to be computed again
	Headroom feature.Seconds `json:"headroom"` // of the last 10 % of the KV cache, where engines preempt
	Crowding feature.Seconds `json:"crowding"` // those that follow the prefix there will lack room; see prices.crowding
	Prefill  feature.Seconds `json:"prefill"`  // the prefill holds up those that decode there
	Queue    feature.Seconds `json:"queue"`    // and those that come while it waits
	Decode   feature.Seconds `json:"decode"`   // one more sequence slows the others

	// Impatience is what the wait for the first token counts beyond its time.
	Impatience feature.Seconds `json:"impatience"`
}

// Cost is their sum.
func (t *Terms) Cost() feature.Seconds {
	return t.TTFT + t.Output + t.Eviction + t.Headroom + t.Crowding + t.Prefill + t.Queue + t.Decode + t.Impatience
}

// Others is the sum of those that the request costs others.
func (t *Terms) Others() feature.Seconds {
	return t.Eviction + t.Headroom + t.Crowding + t.Prefill + t.Queue + t.Decode
}

const (
	// hotShare is how full of what is in use a KV cache may be at no cost.
	hotShare = 0.9
	// recompute is how much longer than a plain prefill it takes when what was
	// preempted is computed again.
	recompute = 1.3
	// defaultBudget is the token budget of a step where a profile gives none:
	// vLLM's default for online serving.
	defaultBudget = 8192
	// leastSteps is how many measured engine steps make an endpoint's speed
	// count in how unequal the speeds are.
	leastSteps = 100
	// mostQueued is the greatest share of its time that an endpoint is believed to
	// spend on prefill where it is reckoned how many come before a queue is empty:
	// the rate of half a minute is no ground for more than that.
	mostQueued = 0.7
	// Speeds that differ by less than evenSpread times count as equal, and by
	// spreadRange more as altogether unequal.
	evenSpread  = 1.25
	spreadRange = 0.75
)

// prices are what the terms of all candidates of one decision have in common.
type prices struct {
	decode    float64 // of a second that one request is slowed by another's decoding
	followers float64 // beside each request in flight, how many stand on the same tokens
	scraped   bool    // every candidate says how full its KV cache is
}

// price finds the prices of the eligible candidates. That a sequence slows the
// others matters where speeds are unequal: on equal endpoints the load evens
// out by itself, and to count it would only keep long requests waiting.
func (out *Choice) price(in *Input) {
	s := &in.Settings
	unequal := min(1, max(0, (out.spread(in)-evenSpread)/spreadRange))
	out.prices = prices{
		decode:    s.DecodeExternality * unequal,
		followers: out.followers(in),
		scraped:   true,
	}
	for _, i := range out.eligible {
		if feature.IsUnknown(in.Candidates[i].Load.Scraped.KVUsed) {
			out.prices.scraped = false
			return
		}
	}
}

// followers is how many requests in flight stand on the same tokens of the
// eligible candidates' caches beside the one that took the room for them, in the
// mean over all tokens that are held: 0 where nobody shares a prefix, and where
// those who do come one after the other.
func (out *Choice) followers(in *Input) float64 {
	shared, held := 0.0, 0.0
	for _, i := range out.eligible {
		l := &in.Candidates[i].Load.Ledger
		own := or(l.SharedContext, 0)
		shared += own
		held += max(0, or(l.ContextTokens, 0)+or(l.WaitingContext, 0)-own)
	}
	if !(held > 0) {
		return 0
	}
	return shared / held
}

// spread is how many times slower the 95th percentile of the eligible
// candidates is than the 5th: by class and by the measured speed factor. So one
// sick endpoint among many changes nothing for the rest. Percentiles lie
// between two values where they have to (Hyndman and Fan's type 7).
func (out *Choice) spread(in *Input) float64 {
	slow := out.numbers[:0]
	least, most := math.Inf(1), 0.0
	for _, i := range out.eligible {
		c := &in.Candidates[i]
		if !(c.SpeedSteps >= leastSteps) {
			continue
		}
		s := c.slowness()
		if !(s > 0) || math.IsInf(s, 1) {
			continue
		}
		slow = append(slow, s)
		least, most = min(least, s), max(most, s)
	}
	out.numbers = slow
	if len(slow) < 2 || most <= evenSpread*least { // nothing that counts, as nearly always
		return 1
	}
	slices.Sort(slow)
	return percentile(slow, 0.95) / percentile(slow, 0.05)
}

// percentile is the value of a sorted list below which that share of it lies.
func percentile(sorted []float64, share float64) float64 {
	at := share * float64(len(sorted)-1)
	below := int(at)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
}

// slowness is the seconds that c takes for one step that is the same for all:
// 512 tokens of prefill beside 32 sequences of 1,000 tokens.
func (c *Candidate) slowness() float64 {
	k := c.paced()
	return k.A + 512*k.B + 32*k.D + 32_000*k.E
}

// paced are the coefficients of c's class, slowed by c's own factor.
func (c *Candidate) paced() physics.Coefficients {
	if s := c.Load.Profile.SpeedFactor; s > 0 {
		return c.Coefficients.Scaled(s)
	}
	return c.Coefficients
}

// Terms are the parts of candidate i's cost in the choice that was made from
// in; all NaN where predicted did not score it.
func (out *Choice) Terms(in *Input, i int) Terms {
	if out.Policy != Predicted || feature.IsUnknown(out.Costs[i]) {
		unknown := feature.Seconds(feature.Unknown)
		return Terms{unknown, unknown, unknown, unknown, unknown, unknown, unknown, unknown, unknown}
	}
	return out.prices.terms(in, &in.Candidates[i], &out.Forecasts[i])
}

// terms is what the request costs on c, which has the forecast f.
//
// What it does to others is physics, because differences of a forest are
// piecewise constant; it is scaled by what the forecast makes of the prior.
// Sums over requests in flight come from the histograms of the ledger.
func (p *prices) terms(in *Input, c *Candidate, f *feature.Forecast) Terms {
	r, s, led := &in.Request, &in.Settings, &c.Load.Ledger
	k := c.paced()
	slower := math.Exp(c.Residual.TTFT.P50 + c.Correction.TTFT.P50)
	decodesSlower := math.Exp(c.Residual.TPOT.P50 + c.Correction.TPOT.P50)
	uncached, output := c.uncached(r), r.ExpectedOutputTokens
	sequences := max(1, or(r.Completions, 1))

	work := slower * float64(k.Work(r.PromptTokens, uncached))
	held := beyond(&led.Remaining, (float64(f.TTFT.P50)-work)/float64(f.TPOT.P50))
	t := Terms{TTFT: f.TTFT.P50, Output: f.TPOT.P50 * feature.Seconds(output), Impatience: feature.Seconds(s.Impatience) * f.TTFT.P50}
	if capacity := c.Load.Profile.KVCapacityTokens; capacity > 0 {
		full := or(c.HotTokens, 0) + uncached + or(led.GeneratedTokens, 0) - hotShare*capacity
		evicts := min(1, max(0, full/uncached))
		t.Eviction = feature.Seconds(s.EvictionWeight * evicts * work * (1 + s.EvictionExternality*held))

		t.Crowding = feature.Seconds(s.EvictionWeight*p.crowding(c, r.PromptTokens, uncached)) * (t.TTFT + t.Output)

		used := or(led.ContextTokens, 0)
		if p.scraped {
			used = c.Load.Scraped.KVUsed * capacity
		}
		over := max(0, used+or(led.PrefillTokens, 0)+uncached+sequences*or(output, 0)/2-hotShare*capacity)
		t.Headroom = feature.Seconds(s.HeadroomWeight * recompute * slower * k.B * over)
	}
	budget := or(c.Load.Profile.MaxBatchedTokens, defaultBudget)
	if !(budget > 0) {
		budget = defaultBudget
	}
	t.Prefill = feature.Seconds(s.PrefillExternality * (work + slower*k.A*uncached/budget) * held)
	t.Queue = feature.Seconds(s.QueueExternality * behind(k, led) * (max(0, float64(f.TTFT.P50)-work) + work/2))
	if p.decode > 0 {
		each := decodesSlower * (k.D + k.E*(r.PromptTokens+or(output, 0)/2)) / (1 - or(physics.Stolen(k, led), 0))
		t.Decode = feature.Seconds(p.decode * sequences * each * shared(&led.Remaining, output))
	}
	return t
}

// crowding is which part of the time that the request stays is lost by those who
// follow it, in the mean.
//
// Where many ask for one prefix at once, the load goes where the prefixes are: who
// places one now places the requests that will stand on it. When traffic grows, an
// endpoint that holds more prefixes than others lacks room first, and then
// those who come wait until another ends, for about as long as one stays. By how
// much traffic will grow nobody knows; were all factors as likely to be doubled
// again (Pareto's law of exponent 1), then what is in use here would outgrow the
// cache with a probability of the share of it that it takes now. So each of
// the followers is taken to lose that share of a stay, for the part of the prompt
// that is new here.
//
// Without it the fastest endpoints were given 21 tenants of simulated b2b-saas
// traffic where 15 fit, because their decoding was a few percent faster while the
// caches were empty: at 46 requests/s, the prior alone had an E2E 11 % above
// active-request's and forty times its TTFT p90. With it they are 2 and 46 % below
// (20 development seeds). Where few share a prefix at the same time, as in
// mixed traffic (0.02 followers) and replayed traces, it changes next to nothing.
// Retrieval over popular documents (0.8 followers, answers of half a second) pays 4 %
// of E2E for it at 60 % of its knee and gains 8 % of TTFT p90 at 90 %.
func (p *prices) crowding(c *Candidate, prompt, uncached float64) float64 {
	if p.followers == 0 {
		return 0
	}
	inUse := (or(c.HotTokens, 0) + or(c.Load.Ledger.GeneratedTokens, 0)) / c.Load.Profile.KVCapacityTokens
	return p.followers * min(1, uncached/max(1, prompt)) * min(1, inUse)
}

// behind is by how many times its own wait a request of middling prefill makes
// others wait that come before the queue is empty again. In a queue of one server
// that works a share u of its time, the work that is put behind a backlog is
// waited for by all that come while the backlog and its own half last, and while
// what they bring lasts: by arrivals x (backlog + work/2) / (1 - u), work each.
// Of a request whose work is the mean, arrivals x work is u.
func behind(k physics.Coefficients, l *feature.Ledger) float64 {
	u := min(mostQueued, or(k.B*l.PrefillRate+k.C*l.PrefillContextRate, 0))
	return u / (1 - u)
}

// or is v, or another number where it is unknown.
func or(v, other float64) float64 {
	if v != v {
		return other
	}
	return v
}

// bucket is the fewest and the most tokens that a request counted in bucket i
// has still to generate; see feature.RemainingBuckets.
func bucket(i int) (from, to float64) {
	from = float64(int64(1) << i)
	return from, 2*from - 1
}

// beyond is how many of the requests in flight have more than some tokens still
// to generate. Inside a bucket they are taken as evenly spread.
func beyond(remaining *[feature.RemainingBuckets]float64, tokens float64) float64 {
	sum := 0.0
	for i, n := range remaining {
		if !(n > 0) {
			continue
		}
		from, to := bucket(i)
		switch {
		case tokens < from:
			sum += n
		case tokens < to:
			sum += n * (to - tokens) / (to - from)
		}
	}
	return sum
}

// shared is the sum, over the requests in flight, of the tokens that each still
// generates beside one that generates so many.
func shared(remaining *[feature.RemainingBuckets]float64, tokens float64) float64 {
	sum := 0.0
	for i, n := range remaining {
		if !(n > 0) {
			continue
		}
		from, to := bucket(i)
		sum += n * meanLesser(from, to, or(tokens, 0))
	}
	return sum
}

// meanLesser is the mean of min(x, most) over x evenly spread between from and
// to.
func meanLesser(from, to, most float64) float64 {
	switch {
	case most <= from:
		return max(0, most)
	case most >= to:
		return (from + to) / 2
	}
	below := (most - from) / (to - from)
	return below*(from+most)/2 + (1-below)*most
}
