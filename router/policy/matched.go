package policy

import "github.com/spillway-llm/spillway/internal/feature"

// matched is a matched configuration: keep the request with the endpoints
// that hold its prefix until they are saturated, then choose by load.
//
// Both sides of the valve are estimated alike: uncached tokens in flight over
// the peak prefill throughput, or over the default one for all endpoints as
// soon as one of them has none.
func matched(load func(*Input, *Candidate) float64) rule {
	return func(in *Input, out *Choice) {
		for _, i := range out.eligible {
			out.Costs[i] = load(in, &in.Candidates[i])
		}
		penalty := in.Settings.MaxTTFTPenalty
		if slo := in.Request.SLOTTFT; slo > 0 {
			penalty = min(penalty, slo)
		}
		measured := out.allMeasured(in)
		out.filter(in, penalty, func(i int) feature.Seconds {
			c := &in.Candidates[i]
			if !measured {
				return feature.Seconds(c.Load.Ledger.PrefillTokens / in.Settings.DefaultThroughput)
			}
			return feature.Seconds(c.Load.Ledger.PrefillTokens / c.Load.Profile.PeakPrefillThroughput)
		})
		out.least(out.pool)
		out.Reason.Cost = out.Costs[out.Index]
	}
}

// allMeasured reports whether every eligible candidate has a peak prefill
// throughput of its own.
func (out *Choice) allMeasured(in *Input) bool {
	for _, i := range out.eligible {
		if !(in.Candidates[i].Load.Profile.PeakPrefillThroughput > 0) {
			return false
		}
	}
	return true
}

// filter fills out.pool: the warm eligible candidates unless their best
// estimated TTFT exceeds the best of the others by more than penalty; all of
// them when there is no warm one or the valve opens. Unknown estimates are not
// compared, so where one side has no other kind the valve stays shut.
func (out *Choice) filter(in *Input, penalty feature.Seconds, ttft func(int) feature.Seconds) {
	warm, cold := feature.Seconds(feature.Unknown), feature.Seconds(feature.Unknown)
	for _, i := range out.eligible {
		best := &cold
		if sticky(in, &in.Candidates[i]) {
			best = &warm
			out.pool = append(out.pool, i)
		}
		if estimate := ttft(i); estimate < *best || feature.IsUnknown(*best) {
			*best = estimate
		}
	}
	out.Reason.Warm, out.Reason.Coldest = warm, cold
	switch gap := warm - cold; {
	case len(out.pool) == 0:
		out.Reason.Code = AllCold
	case len(out.pool) == len(out.eligible):
		out.Reason.Code = AllWarm
		return
	case gap > penalty:
		out.Reason.Code, out.Reason.Gap, out.Reason.Valve = Spilled, gap, penalty
	default:
		out.Reason.Code, out.Reason.Gap, out.Reason.Valve = Warm, gap, penalty
		return
	}
	out.pool = append(out.pool[:0], out.eligible...)
}

// Sticky reports whether candidate i is warm: worth staying with.
func Sticky(in *Input, i int) bool { return sticky(in, &in.Candidates[i]) }

// sticky says whether c holds enough of the prompt to be worth staying with:
// a share of it, or a prefill time saved.
func sticky(in *Input, c *Candidate) bool {
	if c.CachedTokens <= 0 {
		return false
	}
	if c.CachedTokens >= in.Settings.StickyShare*in.Request.PromptTokens {
		return true
	}
	return feature.Seconds(c.CachedTokens/throughput(in, c)) >= in.Settings.StickySaved
}

// throughput is c's peak prefill throughput in tokens/s.
func throughput(in *Input, c *Candidate) float64 {
	if t := c.Load.Profile.PeakPrefillThroughput; t > 0 {
		return t
	}
	return in.Settings.DefaultThroughput
}

// tokenLoad is the uncached prefill tokens in flight with this request added.
func tokenLoad(in *Input, c *Candidate) float64 {
	return c.Load.Ledger.PrefillTokens + c.uncached(&in.Request)
}

// activeRequest is the number of requests in flight.
func activeRequest(_ *Input, c *Candidate) float64 {
	return c.Load.Ledger.Requests
}

// combinedLoad counts a request in flight as a number of prefill tokens.
func combinedLoad(in *Input, c *Candidate) float64 {
	return tokenLoad(in, c) + in.Settings.TokensPerRequest*c.Load.Ledger.Requests
}
