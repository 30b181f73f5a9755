package fleet

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/policy"
)

// Begins is the time at which every world begins, as its rows tell it.
func Begins() time.Time { return epoch }

// simulatedLLM is what the decisions of a world name as their LLM: it has one.
const simulatedLLM = "simulated"

// decided is the complete row of what a router has just decided on, as route
// writes it: from it alone policy.Decide gives the same choice. nil where nobody
// wants it, and where there was no choice: a connection or a fork led the way.
func (w *world) decided(c *call) *feature.Decision {
	if w.config.Decisions == nil || c.ticket.policy == "" && !c.replica.choice.Shed || c.replica.forced >= 0 {
		return nil
	}
	r := c.replica
	in, out := &r.input, &r.choice
	d := &feature.Decision{
		DecidedAt: w.time(w.now), LLM: simulatedLLM, Router: fmt.Sprintf("router-%02d", r.number), Mode: r.part.mode, Experiment: r.part.design, Arm: r.part.arm,
		Policy: out.Policy, PolicyVersion: policy.Version, Schema: feature.Schema, State: string(r.state()), Reason: out.Reason.String(),
		PromptTokens: in.Request.PromptTokens, ExpectedOutputTokens: in.Request.ExpectedOutputTokens,
		SLOTTFT: in.Request.SLOTTFT, SLOTPOT: in.Request.SLOTPOT, Priority: int(in.Request.Priority),
		ChosenVector: unasked, Propensity: out.ShedProbability, Explored: out.Explored,
		Complete: true, States: policy.Encode(nil, in), RestCostMin: feature.Unknown, RestCostMax: feature.Unknown, Seed: in.Seed,
		PromptDigest: r.digest(c.request.Prompt.Chain),
		Candidates:   make([]feature.Candidate, len(in.Candidates)),
	}
	binary.BigEndian.PutUint64(d.ID[8:], c.id)
	for i := range in.Candidates {
		from := &in.Candidates[i]
		to := &d.Candidates[i]
		*to = feature.Candidate{
			Endpoint: from.Endpoint, Class: from.Class, Vector: unasked, Forecast: feature.NoForecast,
			Corrected: out.Forecasts[i], Cost: out.Costs[i], Probability: out.Probabilities[i],
		}
		if from.Residual.Known() {
			to.Forecast = r.said(i)
			d.Bundle = max(1, r.guard.Bundle())
		}
		if from.Residual.Known() || i == out.Index {
			to.Vector = from.Vector(&in.Request)
		}
	}
	if !out.Shed {
		chosen := &d.Candidates[out.Index]
		d.Chosen, d.ChosenClass, d.Propensity, d.ChosenVector = chosen.Endpoint, chosen.Class, chosen.Probability, chosen.Vector
	}
	return d
}

// said is what the last answers, as they were given, say of a candidate.
func (r *router) said(i int) feature.Forecast {
	if at := slices.Index(r.asked, i); at >= 0 && at < len(r.answers) && r.input.Candidates[i].Residual.Known() {
		return r.answers[at]
	}
	return feature.NoForecast
}

// unasked is the vector of a candidate that nobody was asked about.
var unasked = func() (v feature.Vector) {
	for i := range v {
		v[i] = float32(feature.Unknown)
	}
	return v
}()

// state is whether forecasts may decide. Those of a forecaster that is no
// Predictor always may.
func (r *router) state() correction.State {
	switch {
	case r.predictor != nil:
		state, _, _ := r.guard.State()
		return state
	case r.config.Forecaster != nil:
		return correction.Live
	}
	return correction.Cold
}

// concluded hands over the decision on a request that has ended so.
func (w *world) concluded(c *call, o *Outcome) {
	if c.decision == nil {
		return
	}
	out := w.outcome(c, o)
	w.config.Decisions(c.decision, &out)
	c.decision = nil
}
