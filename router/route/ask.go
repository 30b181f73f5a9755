package route

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/tracing"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/policy"
)

// asking is how asking for a request's forecasts went.
type asking struct {
	asked  bool
	answer Answer
	result correction.Result
	why    string // of a closed set: it goes into rows and headers
	detail error  // for the log alone

	// What was asked about, and the answer, side by side.
	vectors   []feature.Vector
	forecasts []feature.Forecast
}

func (a *asking) answered() bool { return a.asked && a.result == correction.Answered }

// forecasting reports whether there is somebody to ask, and something to ask for.
func (r *Router) forecasting() bool {
	return r.forecaster != nil && r.asks
}

// choose picks the candidates to forecast and makes their vectors: the k that
// cost least under the prior, and all warm ones; everyone for k = 0. Those
// whose prior is out of range are left out: a request that would take longer
// than any forecast may say is no fault of the predictor's.
func (s *scratch) choose(k int) {
	s.asked, s.vectors, s.forecasts = s.asked[:0], s.vectors[:0], s.forecasts[:0]
	for _, i := range s.shortlist.Choose(&s.input, k) {
		v := s.input.Candidates[i].Vector(&s.input.Request)
		if !correction.Startable(v.Prior()) {
			s.beyond++
			continue
		}
		s.asked = append(s.asked, s.known[i])
		s.vectors = append(s.vectors, v)
		s.forecasts = append(s.forecasts, feature.NoForecast)
	}
}

// ask makes one forecast call within the deadline. An answer that comes after
// it is late, however good.
func (r *Router) ask(ctx context.Context, llm string, vectors []feature.Vector, out []feature.Forecast) asking {
	ctx, cancel := context.WithTimeout(ctx, r.config.ForecastDeadline)
	defer cancel()
	ctx, span := r.config.Tracer.Child(ctx, "forecast")
	defer span.End()
	began := time.Now()
	answer, err := r.forecaster.Forecast(ctx, llm, vectors, out)
	r.metrics.forecast.Observe(time.Since(began).Seconds())
	a := asking{asked: true, answer: answer, vectors: vectors, forecasts: out}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = ctx.Err()
	}
	a.result, a.why = classify(err)
	a.detail = err
	span.Count(tracing.KeyCandidates, len(vectors))
	if err != nil {
		span.Fail(resultNames[a.result])
		return a
	}
	span.Count(tracing.KeyBundle, int(answer.Bundle))
	long, absurd := correction.Screen(vectors, out)
	r.metrics.unforecast.WithLabelValues(answerOutOfRange).Add(float64(long))
	if absurd >= 0 {
		f := &out[absurd]
		a.result, a.why = correction.Invalid, ErrImplausible.Error()
		span.Fail(resultNames[a.result])
		a.detail = fmt.Errorf("bundle %d forecast TTFT %g s, TPOT %g s, residuals %v", answer.Bundle, f.TTFT.P50, f.TPOT.P50, f.Residual)
	}
	return a
}

// join gives the candidates what was asked and answered about them. In the
// meantime an endpoint may have left, come, or begun another life; then it has
// no forecast.
func (s *scratch) join(a asking) {
	s.row = s.row[:0]
	if a.answered() {
		s.tempered = append(s.tempered[:0], s.forecasts...)
		correction.Temper(s.tempered, s.input.Request.ExpectedOutputTokens)
	}
	j := 0
	for i, e := range s.known {
		for j < len(s.asked) && s.asked[j].id < e.id {
			j++
		}
		if j == len(s.asked) || s.asked[j] != e {
			s.row = append(s.row, -1)
			continue
		}
		s.row = append(s.row, j)
		if !a.answered() || !s.forecasts[j].Known() {
			continue
		}
		c := &s.input.Candidates[i]
		c.Residual = s.tempered[j].Residual
		c.Correction = correction.Correct(&e.offset, &s.llm.coverage, s.tempered[j], correction.LoadOf(&c.Load))
	}
}

// settled tells the LLM's guard how one forecast call ended.
func (r *Router) settled(l *llm, now time.Time, a asking) {
	if a.result != correction.Answered {
		r.metrics.failures.WithLabelValues(resultNames[a.result]).Inc()
		r.log.Debug("a forecast failed", "llm", l.name, "reason", a.why, "error", a.detail)
		r.note(l, a.detail)(l.guard.Failed(now, a.result, a.why))
		return
	}
	if forget := l.guard.Forgets(a.answer.Bundle); forget != nil {
		for _, e := range r.endpoints {
			if serves(e.state, l.name) { // of the others this bundle says nothing
				forget(&e.offset)
			}
		}
	}
	r.note(l, nil)(l.guard.Answered(now, a.answer, a.vectors, a.forecasts))
}

// probesAtOnce bounds one round of probes: a router that meets many LLMs asks
// about them in turn.
const probesAtOnce = 16

// probe asks for one forecast of an ordinary request for LLMs whose requests
// don't ask themselves, to see when the predictor is well.
func (r *Router) probe(ctx context.Context) {
	if !r.forecasting() {
		return
	}
	c := policy.Candidate{
		Coefficients: r.config.DefaultProfile.Coefficients,
		Load:         feature.Load{Profile: profileLoad(&r.config.DefaultProfile, 1)},
	}
	request := policy.Request{PromptTokens: 1000, ExpectedOutputTokens: correction.ColdOutput, MaxOutputTokens: feature.Unknown, Completions: 1}
	vectors := []feature.Vector{c.Vector(&request)}
	for _, l := range r.quiet() {
		out := []feature.Forecast{feature.NoForecast}
		a := r.ask(ctx, l.name, vectors, out)
		if ctx.Err() != nil {
			return // the router ends: that says nothing of the predictor
		}
		r.mu.Lock()
		if r.llms[l.name] == l {
			r.settled(l, time.Now(), a)
		}
		r.mu.Unlock()
	}
}

// quiet is whom the next round of probes is about.
func (r *Router) quiet() []*llm {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*llm
	next := 0
	for _, l := range r.sorted() {
		if !l.guard.Asks() {
			if l.name <= r.probed {
				next = len(all) + 1
			}
			all = append(all, l)
		}
	}
	if len(all) <= probesAtOnce {
		return all
	}
	turn := make([]*llm, 0, probesAtOnce)
	for i := range probesAtOnce {
		turn = append(turn, all[(next+i)%len(all)])
	}
	r.probed = turn[len(turn)-1].name
	return turn
}
