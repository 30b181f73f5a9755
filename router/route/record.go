package route

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/pool"
)

// fallbackReason says, for the row and the header, why forecasts did not
// decide; empty when they did.
func fallbackReason(r *Router, in *policy.Input, state correction.State, stateReason string, a asking) string {
	switch {
	case r.config.Policy != policy.Predicted || in.Forecasts:
		return ""
	case state != correction.Live:
		return fmt.Sprintf("%s (%s)", state, stateReason)
	case a.asked && a.result != correction.Answered:
		return a.why
	case r.config.Mode == ModeShadow:
		return "shadow mode"
	case r.forecaster == nil:
		return "no predictor is configured"
	default:
		return "forecast not asked for"
	}
}

// record hands the decision to the recorder. It runs outside the lock.
func (t *Ticket) record(s *scratch, snap *pool.Snapshot, q *Query, why string, state correction.State, a asking) {
	r := t.router
	in, out := &s.input, &s.choice
	reason := out.Reason.String()
	if why != "" {
		reason = why + "; " + reason
	}
	t.reason = reason
	d := feature.Decision{
		ID:                   t.id,
		DecidedAt:            t.decidedAt,
		LLM:                  q.LLM,
		Router:               r.config.Name,
		Mode:                 r.config.Mode,
		Policy:               out.Policy,
		PolicyVersion:        policy.Version,
		Schema:               feature.Schema,
		State:                string(state),
		Reason:               reason,
		PromptTokens:         in.Request.PromptTokens,
		ExpectedOutputTokens: in.Request.ExpectedOutputTokens,
		SLOTTFT:              q.SLOTTFT,
		SLOTPOT:              q.SLOTPOT,
		Priority:             q.Priority,
		Chosen:               in.Candidates[out.Index].Endpoint,
		ChosenClass:          in.Candidates[out.Index].Class,
		Propensity:           out.Probabilities[out.Index],
		Explored:             out.Explored,
		RestCostMin:          feature.Unknown,
		RestCostMax:          feature.Unknown,
		Epoch:                snap.Epoch,
		Seed:                 in.Seed,
	}
	answered := a.asked && a.result == correction.Answered
	if answered {
		d.Bundle = a.answer.Bundle
	}
	all := make([]feature.Candidate, len(in.Candidates))
	for i := range in.Candidates {
		c := &in.Candidates[i]
		all[i] = feature.Candidate{
			Endpoint:    c.Endpoint,
			Class:       c.Class,
			Vector:      noVector,
			Forecast:    feature.NoForecast,
			Corrected:   out.Forecasts[i],
			Cost:        out.Costs[i],
			Probability: out.Probabilities[i],
		}
	}
	if a.asked {
		for j, i := range s.asked {
			all[i].Vector = s.vectors[j]
			if answered {
				all[i].Forecast = s.forecasts[j]
			}
		}
	}
	chosen := &all[out.Index]
	if chosen.Vector == noVector || chosen.Vector[0] != chosen.Vector[0] {
		// Not forecast: its vector is that of the decision itself.
		chosen.Vector = in.Candidates[out.Index].Vector(&in.Request)
	}
	d.ChosenVector = chosen.Vector
	d.Complete = len(all) <= r.config.CompleteUpTo || rand.Float64() < r.config.CompleteShare
	d.Candidates = all
	if d.Complete {
		d.States = policy.Encode(nil, in)
	} else {
		d.Candidates, d.Rest, d.RestCostMin, d.RestCostMax = shorten(all, out.Index)
	}
	t.others = all
	r.recorder.RecordDecision(d)
}

// noVector is the vector of a candidate that was not asked about.
var noVector = func() (v feature.Vector) {
	for i := range v {
		v[i] = float32(math.NaN())
	}
	return v
}()

// shorten keeps the candidates that were forecast and the chosen one, and
// tells of the rest how many there were and what they would have cost.
func shorten(all []feature.Candidate, chosen int) (kept []feature.Candidate, rest int, least, most float64) {
	least, most = feature.Unknown, feature.Unknown
	for i, c := range all {
		if i == chosen || c.Forecast.Known() {
			kept = append(kept, c)
			continue
		}
		rest++
		if c.Cost == c.Cost {
			if !(least <= c.Cost) {
				least = c.Cost
			}
			if !(most >= c.Cost) {
				most = c.Cost
			}
		}
	}
	return slices.Clip(kept), rest, least, most
}
