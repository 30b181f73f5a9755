package policy

import "github.com/spillway-llm/spillway/internal/feature"

// explorable is among how many of the cheapest candidates exploration draws;
// more when others tie with the last of them.
const explorable = 4

// predicted sends the request where it costs least: see Terms. Endpoints whose
// forecast p90 meets the request's objectives come before those that don't.
// Among them the affinity filter of the matched configurations holds, with a
// valve on forecast TTFT; see Choice.valve. Candidates without a forecast are not chosen: never
// best by ignorance.
func predicted(in *Input, out *Choice) {
	out.price(in)
	out.forecastOnly()
	for _, i := range out.eligible {
		t := out.prices.terms(in, &in.Candidates[i], &out.Forecasts[i])
		out.Costs[i] = float64(t.Cost())
	}
	out.objectives(in)
	shed := out.drawShed(in)
	out.valve(in)
	if out.left {
		out.Reason.Code = Missing
	}
	out.least(out.pool)
	out.explore(in)
	out.Reason.Cost = out.Costs[out.Index]
	out.shed(shed)
}

// valve filters by affinity. The warm candidates are left when the best of them
// would begin later than the best of the others by more than
// Settings.PredictedPenalty, or the request's objective if that is less. Of the
// forecasts the time to wait for room counts less, as if the valve for it stood
// at Settings.MaxTTFTPenalty: who leaves a full cache takes more room elsewhere
// than it would have here, where its prefix is. With one valve for both, at 5 s,
// simulated b2b-saas traffic at the edge of its caches lost 40 % of E2E; at 18 s
// mixed traffic lost a third of what it gains in TTFT.
func (out *Choice) valve(in *Input) {
	s := &in.Settings
	penalty, counts := s.PredictedPenalty, feature.Seconds(1)
	if s.MaxTTFTPenalty > penalty {
		counts = penalty / s.MaxTTFTPenalty
	}
	if slo := in.Request.SLOTTFT; slo > 0 {
		penalty = min(penalty, slo)
	}
	out.filter(in, penalty, func(i int) feature.Seconds {
		return out.Forecasts[i].TTFT.P50 - (1-counts)*out.room[i]
	})
}

// forecastOnly leaves the eligible candidates that have a forecast.
func (out *Choice) forecastOnly() {
	known := out.eligible[:0]
	for _, i := range out.eligible {
		if out.Forecasts[i].Known() {
			known = append(known, i)
		}
	}
	out.eligible = known
}

// explore moves the probability Settings.Exploration from the best choice to
// the cheapest few whose cost exceeds the least by no more than the permitted
// harm, each alike, and draws. It looks past the filter, so that prefixes which
// many ask for come to stand in several places: confined to the warm candidates
// it cost simulated rag traffic some 15 % of E2E, and spared b2b-saas, whose
// caches are full, 2 to 4 %.
func (out *Choice) explore(in *Input) {
	epsilon := in.Settings.Exploration
	if !(epsilon > 0) {
		return
	}
	limit := out.cheapest(out.Costs[out.Index] + float64(in.Settings.ExplorationHarm))
	out.scratch = out.scratch[:0]
	for _, i := range out.eligible {
		if out.Costs[i] <= limit {
			out.scratch = append(out.scratch, i)
		}
	}
	if len(out.scratch) < 2 {
		return
	}
	share := epsilon / float64(len(out.scratch))
	for i := range out.Probabilities {
		out.Probabilities[i] *= 1 - epsilon
	}
	for _, i := range out.scratch {
		out.Probabilities[i] += share
	}
	if out.rng.Float64() < epsilon {
		out.Index = out.scratch[out.rng.IntN(len(out.scratch))]
		out.Explored = true
		out.Reason.Explored = true
	}
}

// cheapest lowers limit to the cost of the last of the few cheapest eligible
// candidates. All that tie with that one are as cheap, so that the order of
// the candidates never matters.
func (out *Choice) cheapest(limit float64) float64 {
	var few [explorable]float64 // ascending
	n := 0
	for _, i := range out.eligible {
		cost := out.Costs[i]
		if !(cost <= limit) {
			continue
		}
		at := n
		for at > 0 && few[at-1] > cost {
			at--
		}
		if at == explorable {
			continue
		}
		n = min(n+1, explorable)
		copy(few[at+1:n], few[at:])
		few[at] = cost
	}
	if n < explorable {
		return limit
	}
	return few[explorable-1]
}
