package route

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/policy"
)

// fallback is why forecasts did not decide; empty when they did or were not
// meant to.
type fallback struct {
	label string // of a closed set, for the metric
	text  string // for the row and the header
}

func (r *Router) fallback(s *scratch, a asking) fallback {
	switch {
	case s.input.Policy == s.choice.Policy:
		return fallback{}
	case s.state != correction.Live:
		return fallback{"state", fmt.Sprintf("%s (%s)", s.state, s.stateReason)}
	case a.asked && !a.answered():
		return fallback{resultNames[a.result], a.why}
	case s.drill:
		return fallback{"drill", "fallback drill"}
	case s.choice.Held:
		return fallback{"canary", fmt.Sprintf("not in the canary of %g", r.config.Canary)}
	case s.input.Forecasts:
		return fallback{"unforecast", "no usable endpoint has a forecast"}
	case r.config.Mode == ModeShadow:
		return fallback{"shadow", "shadow mode"}
	case s.lost:
		return fallback{"lost_order", "forecasts lose the order of their priors"}
	case s.beyond > 0:
		return fallback{"out_of_range", "every prior is out of range"}
	default: // live since this request looked
		return fallback{"not_asked", "forecast not asked for"}
	}
}

// reason is the one readable line about a decision.
func (s *scratch) reason() string {
	reason := s.choice.Reason.String()
	if s.fell.label != "" {
		reason = s.fell.text + "; " + reason
	}
	if s.without != "" {
		reason = s.without + "; " + reason
	}
	if s.choice.Shed {
		return reason
	}
	if standing := s.input.Candidates[s.choice.Index].Standing; standing != policy.Good {
		reason = fmt.Sprintf("last resort: %s; %s", standing, reason)
	}
	return reason
}

// record hands the decision to the recorder. It runs outside the lock.
func (t *Ticket) record(s *scratch, q *Query, a asking) {
	r := t.router
	t.reason = s.reason()
	d := r.decision(s, q, a)
	d.ID, d.DecidedAt, d.Reason = t.id, t.decidedAt, t.reason
	t.others = s.options()
	r.recorder.RecordDecision(d)
	t.recorded = true
}

// decision is the row of a decision, but for what names it and its reason.
func (r *Router) decision(s *scratch, q *Query, a asking) feature.Decision {
	in, out := &s.input, &s.choice
	d := feature.Decision{
		LLM:                  q.LLM,
		Router:               r.config.Name,
		Mode:                 r.config.Mode,
		Experiment:           s.part.design,
		Arm:                  s.part.arm,
		Policy:               out.Policy,
		PolicyVersion:        policy.Version,
		Schema:               feature.Schema,
		State:                string(s.state),
		PromptTokens:         in.Request.PromptTokens,
		ExpectedOutputTokens: in.Request.ExpectedOutputTokens,
		SLOTTFT:              q.SLOTTFT,
		SLOTPOT:              q.SLOTPOT,
		Priority:             q.Priority,
		ChosenVector:         noVector,
		Propensity:           out.ShedProbability,
		Explored:             out.Explored,
		Complete:             len(in.Candidates) <= r.config.CompleteUpTo || drawn(in.Seed) < r.config.CompleteShare,
		RestCostMin:          feature.Unknown,
		RestCostMax:          feature.Unknown,
		Epoch:                s.epoch,
		Seed:                 in.Seed,
	}
	if !out.Shed {
		chosen := &in.Candidates[out.Index]
		d.Chosen, d.ChosenClass, d.Propensity = chosen.Endpoint, chosen.Class, out.Probabilities[out.Index]
	}
	if a.answered() {
		d.Bundle = a.answer.Bundle
	}
	s.rows(&d, a)
	d.PromptDigest = s.digest()
	if d.Complete {
		s.encoded = policy.Encode(s.encoded[:0], in)
		d.States = slices.Clone(s.encoded)
	}
	return d
}

// rows fills in the candidates: all of a complete row, else those that were
// forecast and the chosen one, with what there is to say of the rest.
func (s *scratch) rows(d *feature.Decision, a asking) {
	in, out := &s.input, &s.choice
	n := len(in.Candidates)
	if !d.Complete {
		n = min(n, len(s.asked)+1)
	}
	d.Candidates = make([]feature.Candidate, 0, n)
	for i := range in.Candidates {
		forecast := a.answered() && s.row[i] >= 0 && s.forecasts[s.row[i]].Known()
		if !d.Complete && i != out.Index && !forecast {
			d.Rest++
			d.RestCostMin = least(d.RestCostMin, out.Costs[i])
			d.RestCostMax = -least(-d.RestCostMax, -out.Costs[i])
			continue
		}
		c := feature.Candidate{
			Endpoint:    in.Candidates[i].Endpoint,
			Class:       in.Candidates[i].Class,
			Vector:      noVector,
			Forecast:    feature.NoForecast,
			Corrected:   out.Forecasts[i],
			Cost:        out.Costs[i],
			Probability: out.Probabilities[i],
		}
		switch j := s.row[i]; {
		case j >= 0:
			c.Vector = s.vectors[j]
		case i == out.Index: // nobody was asked: what the decision itself saw
			c.Vector = in.Candidates[i].Vector(&in.Request)
		}
		if forecast {
			c.Forecast = s.forecasts[s.row[i]]
		}
		if i == out.Index {
			d.ChosenVector = c.Vector
		}
		d.Candidates = append(d.Candidates, c)
	}
}

// options is what a retry may choose from.
func (s *scratch) options() options {
	if len(s.known) < 2 {
		return options{}
	}
	o := options{endpoints: s.known, costs: slices.Clone(s.choice.Costs), forecasts: make([]forecastOf, 0, len(s.asked))}
	for i := range s.choice.Forecasts {
		if f := &s.choice.Forecasts[i]; f.Known() {
			o.forecasts = append(o.forecasts, forecastOf{s.known[i].id, *f})
		}
	}
	return o
}

// noVector is the vector of a candidate that was not asked about.
var noVector = func() (v feature.Vector) {
	for i := range v {
		v[i] = float32(math.NaN())
	}
	return v
}()

// least is the lesser of two numbers that may be unknown.
func least(a, b float64) float64 {
	if b < a || a != a {
		return b
	}
	return a
}

// draw is a seed for one decision's own draws.
func draw() uint64 { return rand.Uint64() }

// drawn is a number from 0 to 1 that follows from a decision's seed and from
// none of its draws: whether a row is complete says nothing of its choice.
func drawn(seed uint64) float64 {
	var source rand.PCG
	source.Seed(seed, 0x636f_6d70_6c65_7465)
	return float64(source.Uint64()>>11) / (1 << 53)
}
