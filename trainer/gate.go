package trainer

import (
	"fmt"
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
)

// Verdict is what the gate found. Losses are mean pinball losses of
// ln(actual/prior) on held-out rows.
type Verdict struct {
	Accepted           bool           `json:"accepted"`
	Reasons            []string       `json:"reasons"` // of a refusal
	LearnRows          int            `json:"learn_rows"`
	HeldOut            int            `json:"held_out_rows"` // with a TTFT
	Heads              []HeadVerdict  `json:"heads"`
	VersusPrior        Interval       `json:"versus_prior"` // candidate's loss less the rival's, over the prior's, summed over heads; below 0 is better
	VersusCART         Interval       `json:"versus_cart"`
	VersusServed       *Interval      `json:"versus_served,omitempty"`
	TTFTMedianAPE      feature.Number `json:"ttft_median_ape"` // of the candidate's p50, a fraction
	TPOTMedianAPE      feature.Number `json:"tpot_median_ape"`
	PriorTTFTMedianAPE feature.Number `json:"prior_ttft_median_ape"`
	PriorTPOTMedianAPE feature.Number `json:"prior_tpot_median_ape"`
}

// HeadVerdict is one head's part of a verdict.
type HeadVerdict struct {
	Head      string         `json:"head"`
	Rows      int            `json:"rows"`
	Distinct  int            `json:"distinct"` // different forecasts on the held-out rows
	Candidate Interval       `json:"candidate"`
	Prior     Interval       `json:"prior"`
	CART      Interval       `json:"cart"`
	Served    *Interval      `json:"served,omitempty"`
	Below     feature.Number `json:"below"` // share of actuals at or below the forecast; ideally the head's quantile
}

// rivals are what a candidate is judged beside.
type rivals struct {
	candidate, prior, cart contender
	served                 *contender // nil when nothing is served
}

// headMargin is how much worse than the prior a single head may be, as a share
// of the prior's loss: a head the prior already does well must not sink a
// bundle by chance.
const headMargin = 0.1

// judged compares the contenders on the held-out rows and decides. On the loss
// of all heads together the candidate must beat the prior with 95 % confidence,
// beat CART, and not lose to the served bundle. No single head may be worse
// than the prior by more than headMargin with 95 % confidence, and none may say
// the same of every row.
func (t *Trainer) judged(learn, judge []sample, r rivals) Verdict {
	v := Verdict{LearnRows: len(learn)}
	versusPrior, versusCART, versusServed := make([]float64, len(judge)), make([]float64, len(judge)), make([]float64, len(judge))
	var worse []string
	for target := range bundle.Targets {
		mine, prior, cart := losses(target, r.candidate, judge), losses(target, r.prior, judge), losses(target, r.cart, judge)
		h := HeadVerdict{
			Head:      target.String(),
			Candidate: bootstrap(mine, t.config.Seed),
			Prior:     bootstrap(prior, t.config.Seed),
			CART:      bootstrap(cart, t.config.Seed),
		}
		var served []float64
		if r.served != nil {
			served = losses(target, *r.served, judge)
			i := bootstrap(served, t.config.Seed)
			h.Served = &i
		}
		seen := map[float64]bool{}
		below := 0
		own := make([]float64, len(judge))
		for i := range judge {
			own[i] = (mine[i] - prior[i]) / float64(h.Prior.Mean)
			y := label(target, &judge[i])
			if y != y {
				continue
			}
			versusPrior[i] += own[i]
			versusCART[i] += (mine[i] - cart[i]) / float64(h.Prior.Mean)
			if served != nil {
				versusServed[i] += (mine[i] - served[i]) / float64(h.Prior.Mean)
			}
			h.Rows++
			seen[r.candidate[target][i]] = true
			if y <= r.candidate[target][i] {
				below++
			}
		}
		h.Distinct, h.Below = len(seen), feature.Number(below)/feature.Number(max(1, h.Rows))
		v.Heads = append(v.Heads, h)
		if h.Distinct < 2 {
			worse = append(worse, fmt.Sprintf("%s says the same of every row", h.Head))
		}
		if i := bootstrap(own, t.config.Seed); i.Low > headMargin {
			worse = append(worse, fmt.Sprintf("%s is worse than the prior", h.Head))
		}
	}
	v.HeldOut = v.Heads[bundle.TTFTP50].Rows
	v.VersusPrior, v.VersusCART = bootstrap(versusPrior, t.config.Seed), bootstrap(versusCART, t.config.Seed)
	v.TTFTMedianAPE, v.PriorTTFTMedianAPE = medianAPE(bundle.TTFTP50, r.candidate, judge), medianAPE(bundle.TTFTP50, r.prior, judge)
	v.TPOTMedianAPE, v.PriorTPOTMedianAPE = medianAPE(bundle.TPOTP50, r.candidate, judge), medianAPE(bundle.TPOTP50, r.prior, judge)

	v.Reasons = []string{}
	if v.HeldOut < t.config.MinHeldOut {
		v.Reasons = append(v.Reasons, fmt.Sprintf("%d held-out rows, want %d", v.HeldOut, t.config.MinHeldOut))
	}
	if !(v.VersusPrior.High < 0) {
		v.Reasons = append(v.Reasons, "does not beat the prior")
	}
	if !(v.VersusCART.Mean < 0) {
		v.Reasons = append(v.Reasons, "does not beat the CART baseline")
	}
	if r.served != nil {
		i := bootstrap(versusServed, t.config.Seed)
		v.VersusServed = &i
		if !(i.Mean <= 0) {
			v.Reasons = append(v.Reasons, "loses to the served bundle")
		}
	}
	v.Reasons = append(v.Reasons, worse...)
	v.Accepted = len(v.Reasons) == 0
	return v
}

// stillGood reports whether the served bundle still beats the prior.
func (t *Trainer) stillGood(judge []sample, r rivals) bool {
	if r.served == nil {
		return false
	}
	versus := make([]float64, len(judge))
	for target := range bundle.Targets {
		served, prior := losses(target, *r.served, judge), losses(target, r.prior, judge)
		scale := float64(bootstrap(prior, t.config.Seed).Mean)
		for i := range judge {
			if d := (served[i] - prior[i]) / scale; d == d {
				versus[i] += d
			}
		}
	}
	return bootstrap(versus, t.config.Seed).High < 0
}

// medianAPE is the median of |forecast - actual| / actual.
func medianAPE(target bundle.Target, c contender, judge []sample) feature.Number {
	var errors []float64
	for i := range judge {
		if y := label(target, &judge[i]); y == y && c[target][i] == c[target][i] {
			errors = append(errors, math.Abs(math.Exp(c[target][i]-y)-1))
		}
	}
	slices.Sort(errors)
	return feature.Number(quantile(errors, 0.5))
}
