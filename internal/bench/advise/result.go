package main

import (
	"math"

	"github.com/spillway-llm/spillway/internal/advise"
	"github.com/spillway-llm/spillway/router/policy"
)

// result is what was advised of a case, and what is true.
type result struct {
	World string  `json:"world"`
	Load  float64 `json:"load"`
	Unit  string  `json:"unit"`

	Says         string `json:"says"`
	ByClass      string `json:"by_class"`      // the matched configuration that what binds alone would name
	BySimulation string `json:"by_simulation"` // that simulation on own seeds alone would name, or either
	Matched      string `json:"matched"`       // that was named
	Recommended  string `json:"recommended"`

	Winner     string        `json:"winner"` // on the judged seeds, by more than 3 %; either or unproven
	Versus     advise.Change `json:"active_request_over_token_load"`
	Predicted  advise.Change `json:"predicted_over_matched"` // the better one on the judged seeds
	Throughout bool          `json:"throughout"`             // it is beaten by more than 3 % in no part of the time
	Right      bool          `json:"right"`

	single bool
}

const (
	// either is where none of two wins by more than matters, in mean E2E latency.
	either  = "either"
	matters = 0.03
	// unproven is where one seems to, but the 95 % interval of the judged seeds
	// has both signs: there is no telling who is right.
	unproven = "unproven"
)

// winner is the matched configuration that wins, and whether there is one.
func winner(versus advise.Change) string {
	switch {
	case max(versus.Mean, 1/(1+versus.Mean)-1) <= matters:
		return either
	case !versus.Proven():
		return unproven
	case versus.Mean > 0:
		return policy.TokenLoad
	}
	return policy.ActiveRequest
}

// compare fills in what was advised and what the judged seeds say.
func (r *result) compare(advice, truth *advise.Advice) {
	r.Says, r.ByClass, r.Matched, r.Recommended = advice.Class.Says, advice.Class.Matched, advice.Matched, advice.Recommended
	r.BySimulation = either
	if advice.Simulated {
		r.BySimulation = advice.Matched
	}
	r.Versus, r.Winner = truth.Versus, winner(truth.Versus)
	better := policy.TokenLoad
	if truth.Versus.Mean < 0 {
		better = policy.ActiveRequest
	}
	own := truth.At(better)
	predicted := truth.At(policy.Predicted)
	r.Predicted = advise.Change{
		Mean: over(predicted.E2EChange.Mean, own.E2EChange.Mean), Low: math.NaN(), High: math.NaN(),
	}
	if better == truth.Matched {
		r.Predicted = predicted.E2EChange
	}
	r.Throughout = true
	for i := range truth.Results {
		for k, c := range truth.Results[i].Parts {
			if over(c.Mean, own.Parts[k].Mean) < -matters {
				r.Throughout = false
			}
		}
	}
	if r.single {
		r.Right = !r.won() || r.Matched == r.Winner
	} else {
		r.Right = r.Recommended == policy.Predicted
	}
}

// won says that there is a winner.
func (r *result) won() bool { return r.Winner != either && r.Winner != unproven }

// over is a change against another, both against the same.
func over(change, other float64) float64 { return (1+change)/(1+other) - 1 }

func (r *result) verdict() string {
	if r.Right {
		return "ok"
	}
	return "WRONG"
}
