package trainer

import (
	"fmt"
	"math"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
)

// OrderVerdict is what p50 forecasts of one latency say between endpoints:
// routing needs no more of them.
type OrderVerdict struct {
	Latency string `json:"latency"` // ttft or tpot
	// All as corrected online, but for the biases. Share of the pairs of held-out requests, dispatched within 5 s to
	// different endpoints, that were put in the order in which they turned out.
	Candidate evaluate.Interval  `json:"candidate"`
	Prior     evaluate.Interval  `json:"prior"`
	CART      evaluate.Interval  `json:"cart"`
	Served    *evaluate.Interval `json:"served,omitempty"`
	// By how much the candidate's share is above the rival's.
	OverPrior  evaluate.Interval  `json:"over_prior"`
	OverCART   evaluate.Interval  `json:"over_cart"`
	OverServed *evaluate.Interval `json:"over_served,omitempty"`
	// How unlike the biases of endpoints are, what all share left out.
	Spread      evaluate.BiasSpread  `json:"bias_spread"`
	PriorSpread evaluate.BiasSpread  `json:"prior_bias_spread"`
	ServedBias  *evaluate.BiasSpread `json:"served_bias_spread,omitempty"`
}

const (
	// orderMargin is by how much of the pairs a candidate must be behind for
	// sure to be refused: less is nothing that routing would feel.
	orderMargin = 0.01
	// orderMarginCART is the same against the tree, which will not serve: it may
	// find endpoints out by a column that happens to tell them apart, and so
	// know what a router corrects anyway.
	orderMarginCART = 0.05
	// mostSpread is how unlike the biases of endpoints may be at most, as a
	// share, where the prior does better: what uncorrected costs a few percent
	// of latency on mixed traffic.
	mostSpread = 0.05
	// spreadMargin and spreadRatio are how much better the prior's has to be to
	// count: about what chance makes of a few hundred rows, where endpoints are
	// alike and where they are not.
	spreadMargin = 0.03
	spreadRatio  = 1.25
)

// order compares the order of p50 forecasts, as a router corrects them, and
// their biases, as they are.
func (t *Trainer) order(target bundle.Target, judge []sample, plain, r rivals) OrderVerdict {
	v := OrderVerdict{Latency: map[bundle.Target]string{bundle.TTFTP50: "ttft", bundle.TPOTP50: "tpot"}[target]}
	seed := t.config.Seed
	rows := dispatched(target, r.candidate, judge)
	over := func(rival contender) (its, candidates evaluate.Interval) {
		theirs := dispatched(target, rival, judge)
		forecasts := make([]float64, len(theirs))
		for i := range theirs {
			forecasts[i] = theirs[i].Forecast
		}
		return evaluate.Concordance(theirs, seed), evaluate.ConcordanceOver(rows, forecasts, seed)
	}
	spread := func(c contender) evaluate.BiasSpread { return spreadOf(dispatched(target, c, judge)) }
	v.Candidate, v.Spread = evaluate.Concordance(rows, seed), spread(plain.candidate)
	v.Prior, v.OverPrior = over(r.prior)
	v.CART, v.OverCART = over(r.cart)
	v.PriorSpread = spread(plain.prior)
	if r.served != nil {
		its, above := over(*r.served)
		bias := spread(*plain.served)
		v.Served, v.OverServed, v.ServedBias = &its, &above, &bias
	}
	return v
}

// dispatched are the rows as the statistics between endpoints take them, in
// logarithms.
func dispatched(target bundle.Target, c contender, judge []sample) []evaluate.Dispatched {
	rows := make([]evaluate.Dispatched, len(judge))
	for i := range judge {
		residual := c[target][i]
		if residual != residual { // no forecast: as if the prior had been said
			residual = 0
		}
		prior := logPrior(target, &judge[i])
		rows[i] = evaluate.Dispatched{At: judge[i].Decided, Endpoint: judge[i].Endpoint, Forecast: prior + residual, Actual: rounded(prior + judge[i].Label(target))}
	}
	return rows
}

// rounded leaves equal latencies equal that were divided by unlike priors.
func rounded(x float64) float64 { return math.Round(x*1e9) / 1e9 }

func spreadOf(rows []evaluate.Dispatched) evaluate.BiasSpread {
	endpoints, errors := make([]string, len(rows)), make([]float64, len(rows))
	for i := range rows {
		endpoints[i], errors[i] = rows[i].Endpoint, rows[i].Forecast-rows[i].Actual
	}
	return evaluate.EndpointSpread(endpoints, errors)
}

// judgeOrder refuses a candidate that orders pairs worse than a rival by more
// than a margin, with 95 % confidence, or whose biases are more unlike than 5 % and than the
// prior's: those of a served bundle may be more alike, where it had learned by
// heart what a router now corrects. Better than a rival it need not be: where the rival already orders nearly
// all, nothing is left to win.
func (v *Verdict) judgeOrder(o OrderVerdict) {
	for _, x := range []struct {
		over   *evaluate.Interval
		margin feature.Number
		rival  string
	}{{&o.OverPrior, orderMargin, "the prior"}, {&o.OverCART, orderMarginCART, "the CART baseline"}, {o.OverServed, orderMargin, "the served bundle"}} {
		if x.over != nil && x.over.High < -x.margin {
			v.refuse(WorseOrder, fmt.Sprintf("orders endpoints by %s worse than %s", o.Latency, x.rival))
		}
	}
	least := o.PriorSpread.Typical
	if o.Spread.Typical > mostSpread && o.Spread.Typical > spreadRatio*least+spreadMargin {
		v.refuse(UnlikeBiases, fmt.Sprintf("its bias of %s differs by %.0f %% between endpoints, %.0f %% without it", o.Latency, 100*o.Spread.Typical, 100*least))
	}
}
