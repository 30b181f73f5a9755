package trainer

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer/learn"
)

// Verdict is what the gate found. Losses are mean pinball losses of
// ln(actual/prior) on held-out rows. Everyone is judged as a router would use it:
// corrected online, in order of time, by the outcomes known at each decision.
type Verdict struct {
	Accepted bool     `json:"accepted"`
	Reasons  []string `json:"reasons"`           // of a refusal, for people
	Grounds  []Ground `json:"grounds"`           // the same from a closed set, each once
	Missing  []string `json:"missing,omitempty"` // what could not be learned, so that the prior stays

	JudgedAt time.Time    `json:"judged_at"`
	Until    time.Time    `json:"until"`                   // decision of the newest row that judged
	Beside   *Beside      `json:"served_bundle,omitempty"` // that was served then
	Flawed   map[Flaw]int `json:"flawed_rows,omitempty"`   // of the window, by their flaw; none was used

	Engine       string `json:"engine,omitempty"`        // that grew the p50 heads, where they are not Spillway's own
	EngineFailed string `json:"engine_failed,omitempty"` // why they are not those of the configured engine

	LearnRows int           `json:"learn_rows"`
	HeldOut   int           `json:"held_out_rows"` // with a TTFT
	Heads     []HeadVerdict `json:"heads,omitempty"`

	// The candidate's loss less the rival's, over the prior's, summed over the
	// learned heads; below 0 is better.
	VersusPrior  evaluate.Interval  `json:"versus_prior"`
	VersusPlain  *evaluate.Interval `json:"versus_prior_plain,omitempty"` // neither corrected: before a router has learned anything
	VersusCART   evaluate.Interval  `json:"versus_cart"`
	VersusLevel  evaluate.Interval  `json:"versus_level"` // of TTFT alone; the level is the same latency for every row
	VersusServed *evaluate.Interval `json:"versus_served,omitempty"`

	Order    []OrderVerdict    `json:"order,omitempty"`
	Coverage []CoverageVerdict `json:"coverage,omitempty"`
	Cost     Cost              `json:"cost"`
	Pairs    int               `json:"monotone_pairs"` // rows and the same with more of one feature
	Falls    int               `json:"monotone_falls"` // of them, that moved against the feature's sign

	TTFTMedianAPE      feature.Number `json:"ttft_median_ape"` // of the candidate's p50, a fraction
	TPOTMedianAPE      feature.Number `json:"tpot_median_ape"`
	PriorTTFTMedianAPE feature.Number `json:"prior_ttft_median_ape"`
	PriorTPOTMedianAPE feature.Number `json:"prior_tpot_median_ape"`
}

// Beside is the bundle that was served when a candidate was judged.
type Beside struct {
	Version int64 `json:"version"`
	Good    bool  `json:"good"` // whether it may go on being served: it beats the prior, on rows that are not all old
}

// Ground is why the gate refuses a candidate.
type Ground string

// The grounds.
const (
	NoBetterThanPrior  Ground = "prior"    // all heads together, with 95 % confidence
	NoBetterThanCART   Ground = "cart"     // all heads together
	NoBetterThanLevel  Ground = "level"    // TTFT, with 95 % confidence
	WorseThanServed    Ground = "served"   // all heads together
	ConstantHead       Ground = "constant" // p50 and p90 of a latency move the prior by the same for every row
	HeadWorseThanPrior Ground = "head"     // a single head, by more than a margin
	MissingTPOT        Ground = "missing"  // the served bundle has one
	WorseOrder         Ground = "order"    // of endpoints, than a rival's
	UnlikeBiases       Ground = "bias"     // of endpoints
	BadCoverage        Ground = "coverage" // of a p90
	NotMonotone        Ground = "monotone" // more load, less latency
	Leak               Ground = "leak"     // a column tells the future
	SpoiltWindow       Ground = "window"   // too many rows are no measurements
	TooLarge           Ground = "size"
	TooSlow            Ground = "cost"
	NoFit              Ground = "fit" // there is no candidate to judge
)

var grounds = []Ground{NoBetterThanPrior, NoBetterThanCART, NoBetterThanLevel, WorseThanServed, ConstantHead, HeadWorseThanPrior, MissingTPOT,
	WorseOrder, UnlikeBiases, BadCoverage, NotMonotone, Leak, SpoiltWindow, TooLarge, TooSlow, NoFit}

// refusal is the verdict when there is nothing to compare.
func refusal(ground Ground, reason string) *Verdict {
	unknown := feature.Number(feature.Unknown)
	nothing := evaluate.Interval{Mean: unknown, Low: unknown, High: unknown}
	v := &Verdict{VersusPrior: nothing, VersusCART: nothing, VersusLevel: nothing, Cost: Cost{Forecast: unknown},
		TTFTMedianAPE: unknown, TPOTMedianAPE: unknown, PriorTTFTMedianAPE: unknown, PriorTPOTMedianAPE: unknown}
	v.refuse(ground, reason)
	return v
}

// refuse adds a reason.
func (v *Verdict) refuse(ground Ground, reason string) {
	v.Reasons = append(v.Reasons, reason)
	if !slices.Contains(v.Grounds, ground) {
		v.Grounds = append(v.Grounds, ground)
	}
}

// HeadVerdict is one head's part of a verdict.
type HeadVerdict struct {
	Head      string             `json:"head"`
	Rows      int                `json:"rows"`     // held out, with this head's target
	Distinct  int                `json:"distinct"` // different forecasts of the candidate on them, uncorrected
	Candidate evaluate.Interval  `json:"candidate"`
	Prior     evaluate.Interval  `json:"prior"`
	CART      evaluate.Interval  `json:"cart"`
	Served    *evaluate.Interval `json:"served,omitempty"`
	Below     feature.Number     `json:"below"` // share of actuals at or below the forecast; ideally the head's quantile

	// GoesBy are the features that the candidate's forest goes by most; none where
	// it is left out.
	GoesBy []learn.Importance `json:"goes_by,omitempty"`
}

// rivals are what a candidate is judged beside.
type rivals struct {
	candidate, prior, cart, level contender
	served                        *contender // nil when nothing is served
}

// online is the same once a router has corrected them.
func (r rivals) online(judge []sample) rivals {
	out := rivals{candidate: online(r.candidate, judge), prior: online(r.prior, judge), cart: online(r.cart, judge), level: online(r.level, judge)}
	if r.served != nil {
		served := online(*r.served, judge)
		out.served = &served
	}
	return out
}

// targets says of each target whether it is learned.
type targets [bundle.Targets]bool

// rare is the share of held-out rows below which a target counts as one that
// this traffic does not have: waiting for more rows would take for ever.
const rare = 0.05

// learnable says which targets there are rows to learn and to judge; an error
// says which are too few yet. TTFT must be learned. TPOT need not where next
// to no answer has a second token.
func (t *Trainer) learnable(past, judge []sample) (targets, error) {
	var out targets
	for _, x := range []struct {
		name     string
		p50, p90 bundle.Target
		must     bool
	}{
		{"TTFT", bundle.TTFTP50, bundle.TTFTP90, true},
		{"TPOT", bundle.TPOTP50, bundle.TPOTP90, false},
	} {
		learns, judges := measured(x.p50, past), measured(x.p50, judge)
		switch few := judges < t.config.MinHeldOut; {
		case !x.must && (learns == 0 || few && float64(judges) < rare*float64(len(judge))):
			continue
		case few:
			return out, fmt.Errorf("%d held-out rows with a %s, want %d", judges, x.name, t.config.MinHeldOut)
		case learns == 0:
			return out, fmt.Errorf("no row with a %s had ended when the held-out part began", x.name)
		}
		out[x.p50], out[x.p90] = true, true
	}
	return out, nil
}

const (
	// headMargin is how much worse than the prior a single head may be, as a
	// share of the prior's loss: a head the prior already does well must not
	// sink a bundle by chance.
	headMargin = 0.1
	// leastLoss is what losses are at least divided by, in units of
	// ln(actual/prior): where the prior is right to a thousandth, nothing is
	// left to win, and a share of its loss would be noise.
	leastLoss = 1e-3
	// skilledOrder is the share of pairs put in order that no set of forecasts
	// reaches for sure by chance, with a hundred rows.
	skilledOrder = 0.55
)

// verdict compares the contenders on the held-out rows, plain and corrected
// online, and decides. On the loss of all learned heads together the candidate
// must beat the prior once both are corrected, and with 95 % confidence then or
// before; beat CART, and not lose to the served bundle. On TTFT it must be
// skilled: who can't do better than one number for all has nothing to say, and
// where that number beats the prior by far, the rows are not what they
// claim. No single head may be worse than the prior or the level by more than
// headMargin with 95 % confidence, none of the two latencies may have both
// heads say the same of every row, and none may be missing that the served
// bundle has. For the rest see judgeOrder, judgeCoverage and leakOf.
func (t *Trainer) verdict(past, judge []sample, learned targets, plain, r rivals) *Verdict {
	v := &Verdict{LearnRows: len(past), Reasons: []string{}, Grounds: []Ground{}}
	for target := range bundle.Targets {
		v.Heads = append(v.Heads, t.headVerdict(target, judge, plain, r))
	}
	v.HeldOut = v.Heads[bundle.TTFTP50].Rows
	v.TTFTMedianAPE, v.PriorTTFTMedianAPE = medianAPE(bundle.TTFTP50, r.candidate, judge), medianAPE(bundle.TTFTP50, r.prior, judge)
	v.TPOTMedianAPE, v.PriorTPOTMedianAPE = medianAPE(bundle.TPOTP50, r.candidate, judge), medianAPE(bundle.TPOTP50, r.prior, judge)
	t.judgeLosses(v, judge, learned, plain, r)
	for target := range bundle.Targets {
		if learned[target] {
			t.judgeHead(v, target, judge, plain, r)
		}
	}
	if !v.skilled() {
		v.refuse(NoBetterThanLevel, "says no more of TTFT than one number for all requests")
	}
	if !learned[bundle.TPOTP50] {
		v.Missing = append(v.Missing, fmt.Sprintf("no TPOT: %d of %d held-out rows have one, so the prior stays", v.Heads[bundle.TPOTP50].Rows, len(judge)))
		if plain.served != nil && (says(*plain.served, bundle.TPOTP50) || says(*plain.served, bundle.TPOTP90)) {
			v.refuse(MissingTPOT, "has no TPOT, which the served bundle has")
		}
	}
	if column, leaks := leakOf(judge); leaks {
		v.refuse(Leak, leakReason(column))
	}
	return v
}

// skilled reports whether the candidate tells requests apart by their TTFT: it
// beats the level, or puts far more pairs of endpoints in order than a coin
// would, both with confidence. Where endpoints differ by what no vector says,
// the latter shows first.
func (v *Verdict) skilled() bool {
	if v.VersusLevel.High < 0 {
		return true
	}
	return slices.ContainsFunc(v.Order, func(o OrderVerdict) bool { return o.Latency == "ttft" && o.Candidate.Low > skilledOrder })
}

// judgeLosses compares the losses of all heads together.
func (t *Trainer) judgeLosses(v *Verdict, judge []sample, learned targets, plain, r rivals) {
	v.VersusPrior, v.VersusCART = t.versus(r.candidate, r.prior, learned, judge, r), t.versus(r.candidate, r.cart, learned, judge, r)
	uncorrected := t.versus(plain.candidate, plain.prior, learned, judge, plain)
	v.VersusPlain = &uncorrected
	v.VersusLevel = t.versus(r.candidate, r.level, targets{bundle.TTFTP50: true, bundle.TTFTP90: true}, judge, r)
	if !(v.VersusPrior.Mean < 0 && min(v.VersusPrior.High, uncorrected.High) < 0) {
		v.refuse(NoBetterThanPrior, "does not beat the prior")
	}
	if !(v.VersusCART.Mean < 0) {
		v.refuse(NoBetterThanCART, "does not beat the CART baseline")
	}
	if r.served != nil {
		i := t.versus(r.candidate, *r.served, learned, judge, r)
		v.VersusServed = &i
		if !(i.Mean <= 0) {
			v.refuse(WorseThanServed, "loses to the served bundle")
		}
	}
}

// judgeHead looks at one learned head.
func (t *Trainer) judgeHead(v *Verdict, target bundle.Target, judge []sample, plain, r rivals) {
	head := v.Heads[target]
	median := learn.Quantiles[target] == 0.5
	if median && head.Distinct < 2 && v.Heads[target+1].Distinct < 2 {
		v.refuse(ConstantHead, fmt.Sprintf("%s says the same of every row, and %s does", head.Head, v.Heads[target+1].Head))
	}
	var alone targets
	alone[target] = true
	if t.versus(r.candidate, r.prior, alone, judge, r).Low > headMargin {
		v.refuse(HeadWorseThanPrior, fmt.Sprintf("%s is worse than the prior", head.Head))
	}
	if t.versus(r.candidate, r.level, alone, judge, r).Low > headMargin {
		v.refuse(NoBetterThanLevel, fmt.Sprintf("%s is worse than one number for all requests", head.Head))
	}
	if median {
		o := t.order(target, judge, plain, r)
		v.Order = append(v.Order, o)
		v.judgeOrder(o)
		return
	}
	for _, c := range coverage(target, judge, r.candidate) {
		v.Coverage = append(v.Coverage, c)
		v.judgeCoverage(c)
	}
}

// judgeStored looks at the candidate as it will be served.
func (t *Trainer) judgeStored(ctx context.Context, v *Verdict, b *bundle.Bundle, e *bundle.Evaluator, size int, judge []sample) error {
	v.Cost = costOf(e, size, judge)
	t.judgeCost(v)
	v.Pairs, v.Falls = falls(e, b.Coefficients, judge, t.config.Seed)
	if v.Falls > 0 {
		v.refuse(NotMonotone, fmt.Sprintf("moves against a feature's sign in %d of %d pairs", v.Falls, v.Pairs))
	}
	goesBy, err := learn.Importances(ctx, b, judge, t.config.Seed)
	for target := range goesBy {
		v.Heads[target].GoesBy = goesBy[target]
	}
	return err
}

// headVerdict is what one head of everyone lost.
func (t *Trainer) headVerdict(target bundle.Target, judge []sample, plain, r rivals) HeadVerdict {
	lost := func(c contender) evaluate.Interval {
		return evaluate.Bootstrap(losses(target, c, judge), t.config.Seed)
	}
	h := HeadVerdict{
		Head: target.String(), Candidate: lost(r.candidate), Prior: lost(r.prior), CART: lost(r.cart),
		Below: feature.Number(feature.Unknown),
	}
	if r.served != nil {
		i := lost(*r.served)
		h.Served = &i
	}
	// A thousandth of a latency is no difference: a fit leaves that much.
	const sameForecast = 1e-3
	seen := map[float64]bool{}
	below := 0
	for i := range judge {
		y, forecast := judge[i].Label(target), r.candidate[target][i]
		if y != y {
			continue
		}
		h.Rows++
		seen[math.Round(plain.candidate[target][i]/sameForecast)] = true
		if y <= forecast {
			below++
		}
	}
	h.Distinct = len(seen)
	if h.Rows > 0 {
		h.Below = feature.Number(below) / feature.Number(h.Rows)
	}
	return h
}

// versus is by how much a loses more than b, in shares of the prior's loss,
// summed over the heads that count. Rows without any of their targets are left
// out.
func (t *Trainer) versus(a, b contender, count targets, judge []sample, r rivals) evaluate.Interval {
	sum := slices.Repeat([]float64{math.NaN()}, len(judge))
	for target := range bundle.Targets {
		if !count[target] {
			continue
		}
		scale := max(leastLoss, evaluate.Mean(losses(target, r.prior, judge)))
		mine, other := losses(target, a, judge), losses(target, b, judge)
		for i := range sum {
			switch d := (mine[i] - other[i]) / scale; {
			case d != d:
			case sum[i] != sum[i]:
				sum[i] = d
			default:
				sum[i] += d
			}
		}
	}
	return evaluate.Bootstrap(sum, t.config.Seed)
}

// says reports whether c has anything to say of target beside the prior.
func says(c contender, target bundle.Target) bool {
	return slices.ContainsFunc(c[target], func(residual float64) bool { return math.Abs(residual) > 0 })
}

// stillGood reports whether the served bundle is better than the prior on the
// judged rows, both corrected online. It had to be so with 95 % confidence to be published; to stay
// it need not prove that anew on every small window, or chance would make it
// stale now and then.
func (t *Trainer) stillGood(judge []sample, r rivals) bool {
	if r.served == nil {
		return false
	}
	every := targets{true, true, true, true}
	return t.versus(*r.served, r.prior, every, judge, r).Mean < 0
}

// medianAPE is the median of |forecast - actual| / actual.
func medianAPE(target bundle.Target, c contender, judge []sample) feature.Number {
	var errors []float64
	for i := range judge {
		if y := judge[i].Label(target); y == y && c[target][i] == c[target][i] {
			errors = append(errors, math.Abs(math.Exp(c[target][i]-y)-1))
		}
	}
	slices.Sort(errors)
	return feature.Number(evaluate.Quantile(errors, 0.5))
}
