// Package explain shows a stored decision as a person reads it: what was known
// of every candidate, what each would have cost and why, the valve and its
// margin, and what came of the choice. It makes the decision again to learn
// what the row does not say.
package explain

import (
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/policy"
)

// Decision is a decision as a person reads it. Its JSON is what spillway explain
// --json prints: seconds, and null where unknown.
type Decision struct {
	ID         string          `json:"id"`
	DecidedAt  time.Time       `json:"decided_at"`
	LLM        string          `json:"llm"`
	Router     string          `json:"router"`
	Mode       string          `json:"mode"`
	Policy     string          `json:"policy"`
	Experiment string          `json:"experiment,omitempty"` // the design that chose the policy
	Arm        string          `json:"arm,omitempty"`        // of a canary, where its coin fell
	State      string          `json:"state"`
	Reason     string          `json:"reason"`
	Bundle     int64           `json:"bundle"`
	Prompt     feature.Number  `json:"prompt_tokens"`
	Output     feature.Number  `json:"expected_output_tokens"`
	SLOTTFT    feature.Seconds `json:"slo_ttft"` // null when unset
	SLOTPOT    feature.Seconds `json:"slo_tpot"`
	Priority   int             `json:"priority"`
	Chosen     string          `json:"chosen"` // empty when the request was shed
	Propensity feature.Number  `json:"propensity"`
	Explored   bool            `json:"explored"`
	ShedChance feature.Number  `json:"shed_probability"`
	Valve      *Valve          `json:"valve,omitempty"` // where there were two sides to compare
	Candidates []Candidate     `json:"candidates"`
	Rest       int             `json:"candidates_not_stored"`
	Replay     string          `json:"replay"` // whether deciding again gives the same
	Outcomes   []Outcome       `json:"outcomes"`
}

// Valve is the comparison that keeps a request with its prefix, or
// lets it go.
type Valve struct {
	Warm    feature.Seconds `json:"warm"`    // best estimated TTFT of those that hold the prefix
	Coldest feature.Seconds `json:"coldest"` // and of the others
	Gap     feature.Seconds `json:"gap"`     // warm - coldest
	OpensAt feature.Seconds `json:"opens_at"`
	Margin  feature.Seconds `json:"margin"` // opens_at - gap; below 0 it is open
}

// Candidate is one endpoint as the decision saw it. What is unknown, or not stored
// in the row, is NaN.
type Candidate struct {
	Endpoint      string          `json:"endpoint"`
	Class         string          `json:"class"`
	Probability   feature.Number  `json:"probability"`
	Cost          feature.Number  `json:"cost"`
	Cached        feature.Number  `json:"cached_tokens"`
	InFlight      feature.Number  `json:"inflight_requests"`
	PrefillTokens feature.Number  `json:"inflight_prefill_tokens"`
	Speed         feature.Number  `json:"speed_factor"`
	PriorTTFT     feature.Seconds `json:"prior_ttft"`
	TTFT          feature.Seconds `json:"forecast_ttft_p50"`
	TTFTP90       feature.Seconds `json:"forecast_ttft_p90"`
	PriorTPOT     feature.Seconds `json:"prior_tpot"`
	TPOT          feature.Seconds `json:"forecast_tpot_p50"`
	TPOTP90       feature.Seconds `json:"forecast_tpot_p90"`
	Vector        Vector          `json:"vector,omitempty"` // what was forecast from, or would have been; empty where it is not stored
	Terms         *policy.Terms   `json:"terms,omitempty"`  // of the cost, where predicted decided
}

// Vector is the numbers of a vector by their names.
type Vector map[string]feature.Number

// Outcome is what came of one attempt.
type Outcome struct {
	Attempt  int             `json:"attempt"`
	Status   feature.Status  `json:"status"`
	Endpoint string          `json:"endpoint"`
	TTFT     feature.Seconds `json:"ttft"`
	TPOT     feature.Seconds `json:"tpot"`
	E2E      feature.Seconds `json:"e2e"`
	Output   feature.Number  `json:"output_tokens"`
	Cached   feature.Number  `json:"cached_tokens"`
}

// Of explains d and what came of it. Of a row that does not hold every candidate,
// or of another version of the policy, what can be read is shown; Replay says so.
func Of(d *feature.Decision, outcomes []feature.Outcome) Decision {
	e := Decision{
		ID: d.ID.String(), DecidedAt: d.DecidedAt, LLM: d.LLM, Router: d.Router, Mode: d.Mode, Policy: d.Policy, Experiment: d.Experiment, Arm: d.Arm, State: d.State,
		Reason: d.Reason, Bundle: d.Bundle, Prompt: feature.Number(d.PromptTokens), Output: feature.Number(d.ExpectedOutputTokens),
		SLOTTFT: d.SLOTTFT, SLOTPOT: d.SLOTPOT, Priority: d.Priority,
		Chosen: d.Chosen, Propensity: feature.Number(d.Propensity), Explored: d.Explored, Rest: d.Rest,
		ShedChance: feature.Number(feature.Unknown), Candidates: []Candidate{}, Outcomes: []Outcome{},
	}
	if d.Chosen == "" {
		e.ShedChance = feature.Number(d.Propensity)
	}
	in, again := e.replay(d)
	for i := range d.Candidates {
		c := candidate(&d.Candidates[i], in, again, i)
		if d.Schema == feature.Schema {
			c.read(&d.Candidates[i].Vector, in == nil)
		}
		e.Candidates = append(e.Candidates, c)
	}
	for _, o := range outcomes {
		e.Outcomes = append(e.Outcomes, Outcome{
			Attempt: o.Attempt, Status: o.Status, Endpoint: o.Endpoint, TTFT: o.TTFT, TPOT: o.TPOT, E2E: o.E2E,
			Output: feature.Number(o.OutputTokens), Cached: feature.Number(o.CachedTokens),
		})
	}
	return e
}

// replay makes the decision again and says whether it is the same. What was
// known then is returned as far as it can be read, and the choice where it is
// the same.
func (e *Decision) replay(d *feature.Decision) (*policy.Input, *policy.Choice) {
	if !d.Complete {
		e.Replay = "not possible: the row does not hold every candidate"
		return nil, nil
	}
	in, err := policy.Replay(d)
	if err != nil {
		e.Replay = "not possible: " + err.Error()
		if in, err = policy.Decode(d.States); err != nil || len(in.Candidates) != len(d.Candidates) {
			return nil, nil
		}
		return in, nil
	}
	var again policy.Choice
	if err = policy.Decide(in, &again); err == nil {
		err = policy.Same(d, in, &again)
	}
	if err != nil {
		e.Replay = "DIFFERS: " + err.Error()
		return in, nil
	}
	e.Replay, e.ShedChance = "the same choice and probabilities", feature.Number(again.ShedProbability)
	if r := &again.Reason; r.Valve > 0 && !feature.IsUnknown(r.Gap) {
		e.Valve = &Valve{Warm: r.Warm, Coldest: r.Coldest, Gap: r.Gap, OpensAt: r.Valve, Margin: r.Valve - r.Gap}
	}
	return in, &again
}

// candidate is candidate i of a decision. in and again may be nil.
func candidate(c *feature.Candidate, in *policy.Input, again *policy.Choice, i int) Candidate {
	unknown, none := feature.Seconds(feature.Unknown), feature.Number(feature.Unknown)
	x := Candidate{
		Endpoint: c.Endpoint, Class: c.Class, Probability: feature.Number(c.Probability), Cost: feature.Number(c.Cost),
		TTFT: c.Corrected.TTFT.P50, TTFTP90: c.Corrected.TTFT.P90, TPOT: c.Corrected.TPOT.P50, TPOTP90: c.Corrected.TPOT.P90,
		Cached: none, InFlight: none, PrefillTokens: none, Speed: none, PriorTTFT: unknown, PriorTPOT: unknown,
	}
	if in == nil {
		return x
	}
	known := &in.Candidates[i]
	prior := known.Prior(&in.Request)
	x.Cached, x.InFlight = feature.Number(known.CachedTokens), feature.Number(known.Load.Ledger.Requests)
	x.PrefillTokens, x.Speed = feature.Number(known.Load.Ledger.PrefillTokens), feature.Number(known.Load.Profile.SpeedFactor)
	x.PriorTTFT, x.PriorTPOT = prior.TTFT, prior.TPOT
	if again == nil {
		return x
	}
	if terms := again.Terms(in, i); !feature.IsUnknown(terms.TTFT) {
		x.Terms = &terms
	}
	return x
}

// read takes in the vector, and what it alone says of the endpoint.
func (c *Candidate) read(v *feature.Vector, alone bool) {
	vector, known := make(Vector, len(v)), false
	for i, name := range names {
		vector[name] = feature.Number(v[i])
		known = known || v[i] == v[i]
	}
	if !known {
		return
	}
	if c.Vector = vector; !alone {
		return
	}
	c.Cached, c.InFlight = vector["cached_tokens"], vector["inflight_requests"]
	c.PrefillTokens, c.Speed = vector["inflight_prefill_tokens"], vector["speed_factor"]
	c.PriorTTFT, c.PriorTPOT = feature.Seconds(vector["prior_ttft"]), feature.Seconds(vector["prior_tpot"])
}

var names = feature.Names()
