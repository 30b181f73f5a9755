package fleet

import (
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/policy"
)

// Forecaster forecasts all candidates of one request in one call: out[i] is
// the forecast of vectors[i], and is NoForecast before the call. It must be a
// function of its vectors alone.
type Forecaster interface {
	Forecast(vectors []feature.Vector, out []feature.Forecast)
}

// Predictor is a Forecaster as a router meets it: a service that may hang, die
// or serve another bundle, and whose forecasts decide only while the router's
// own correction.Guard lets them, as in production. Those of a Forecaster that is
// no Predictor decide always: see Served.
type Predictor interface {
	Forecaster

	// Answer says how asking at a time ends, and with what bundle. Forecast is
	// called where it is correction.Answered. correction.Late costs a request
	// the 5 ms that a router waits.
	Answer(at time.Duration) Answer
}

// Answer is how asking for forecasts ended.
type Answer struct {
	Result    correction.Result
	Bundle    int64         // above 0
	Validated time.Duration // when a refit cycle last found it good; below 0: before the world began
	MaxAge    time.Duration // how long after that it may be used; 0: always
}

const (
	forecastDeadline = 5 * time.Millisecond   // how long a request waits for forecasts, as by default in route
	probeInterval    = 250 * time.Millisecond // between two probes of a predictor that requests don't ask
)

// PriorForecaster forecasts what the prior says, without a residual: the
// policy "predicted" on physics alone.
type PriorForecaster struct{}

// Forecast repeats the priors that the vectors hold.
func (PriorForecaster) Forecast(vectors []feature.Vector, out []feature.Forecast) {
	for i := range vectors {
		p := vectors[i].Prior()
		out[i] = feature.Forecast{
			TTFT:    feature.Quantiles{P50: p.TTFT, P90: p.TTFT},
			TPOT:    feature.Quantiles{P50: p.TPOT, P90: p.TPOT},
			Support: 1,
		}
	}
}

// forecasts reports whether there is somebody to ask, and something to ask for.
func (r *router) forecasts() bool {
	return r.config.Forecaster != nil && (policy.Forecasting(r.config.Policy) || r.config.Experiment.forecasting())
}

// Served is a forecaster as a predictor serves it that never fails: one bundle,
// which never grows old.
func Served(f Forecaster) Predictor { return served{f} }

type served struct{ Forecaster }

// Answer is always there.
func (served) Answer(time.Duration) Answer { return Answer{Bundle: 1} }

// hangs reports whether a request that comes now would wait for forecasts in
// vain.
func (r *router) hangs(now time.Time) bool {
	return r.predictor != nil && r.forecasts() && r.guard.Asks() && r.predictor.Answer(now.Sub(epoch)).Result == correction.Late
}

// forecast asks for the residuals of the candidates worth it and adds what was
// learned online; late says that the request has waited for them in vain. It
// reports whether forecasts may decide. Candidates whose prior or forecast is
// longer than a forecast may be stay without one.
func (r *router) forecast(now time.Time, late bool) bool {
	switch {
	case !r.forecasts():
		return false
	case late:
		r.heard(now, Answer{Result: correction.Late})
		return false
	case r.predictor != nil && !r.guard.Asks():
		return false
	}
	in := &r.input
	r.asked, r.vectors = r.asked[:0], r.vectors[:0]
	for _, i := range r.shortlist.Choose(in, max(0, r.config.Candidates)) {
		if v := in.Candidates[i].Vector(&in.Request); correction.Startable(v.Prior()) {
			r.asked = append(r.asked, i)
			r.vectors = append(r.vectors, v)
		}
	}
	if len(r.vectors) == 0 || !r.ask(now) {
		return false
	}
	r.tempered = append(r.tempered[:0], r.answers...)
	if !r.config.Without.Temper {
		correction.Temper(r.tempered, in.Request.ExpectedOutputTokens)
	}
	for j, i := range r.asked {
		if f := &r.tempered[j]; f.Known() {
			c := &in.Candidates[i]
			c.Residual = f.Residual
			c.Correction = correction.Correct(&r.targets[i].offset, &r.coverage, *f, correction.LoadOf(&c.Load))
		}
	}
	return r.predictor == nil || r.guard.Live() && !r.guard.Lost()
}

// ask asks about r.vectors and reports whether r.answers are usable.
func (r *router) ask(now time.Time) bool {
	r.answers = r.answers[:0]
	for range r.vectors {
		r.answers = append(r.answers, feature.NoForecast)
	}
	var a Answer
	if r.predictor != nil {
		a = r.predictor.Answer(now.Sub(epoch))
	}
	if a.Result == correction.Answered {
		r.config.Forecaster.Forecast(r.vectors, r.answers)
		if _, absurd := correction.Screen(r.vectors, r.answers); absurd >= 0 {
			a.Result = correction.Invalid
		}
	}
	if r.predictor == nil {
		return true
	}
	r.heard(now, a)
	return a.Result == correction.Answered
}

// heard tells the guard how asking ended.
func (r *router) heard(now time.Time, a Answer) {
	if a.Result != correction.Answered {
		r.note(r.guard.Failed(now, a.Result, "it failed"))
		return
	}
	if forget := r.guard.Forgets(a.Bundle); forget != nil {
		for _, t := range r.targets {
			forget(&t.offset)
		}
	}
	r.note(r.guard.Answered(now, correction.Answer{Bundle: a.Bundle, Validated: epoch.Add(a.Validated), MaxAge: a.MaxAge}, r.vectors, r.answers))
}

// settled learns from what came of a forecast so far, and tells the guard: TTFT with
// the first token, TPOT at the end, over a number of tokens.
func (r *router) settled(t *ticket, now time.Time, ttft, tpot feature.Seconds, tokens int) {
	if !t.plain.Known() {
		return
	}
	if !r.config.Without.Offset {
		t.target.offset.Observe(t.plain, ttft, tpot)
	}
	r.coverage.Observe(&correction.Said{Plain: t.plain, Corrected: t.forecast, Load: t.load, Overdue: t.overdue}, ttft, tpot)
	if r.predictor == nil {
		return
	}
	s := correction.Settled{Endpoint: t.target.id, DispatchedAt: t.decided, Plain: t.plain, Forecast: t.forecast,
		TTFT: ttft, TPOT: tpot, OutputTokens: float64(tokens), Overdue: t.late}
	r.note(r.guard.Settled(now, t.bundle, &s))
}

// refutes reports whether t is too late for its forecast, and nobody was told of it.
func (r *router) refutes(t *ticket, now time.Time) bool {
	return r.predictor != nil && !t.late && correction.Refuted(&t.forecast, feature.SecondsOf(now.Sub(t.decided)))
}

// observeLate tells the guard of requests of one endpoint that are too late for their
// forecasts, as a judge remembers them: in the order in which they were decided.
func (r *router) observeLate(refuted []*ticket, now time.Time) {
	slices.SortFunc(refuted, func(a, b *ticket) int { return a.decided.Compare(b.decided) })
	for _, t := range refuted {
		t.late = true
		s := correction.Settled{Endpoint: t.target.id, DispatchedAt: t.decided, Plain: t.plain, Forecast: t.forecast}
		r.note(r.guard.Overdue(now, t.bundle, &s))
	}
}

// note tells whoever wants to know of a change.
func (r *router) note(c correction.Change, moved bool) {
	if moved && r.config.Changes != nil {
		r.config.Changes(c)
	}
}

// probe asks about an ordinary request where requests don't ask themselves.
func (r *router) probe(now time.Time) {
	if r.predictor == nil || !r.forecasts() || r.guard.Asks() {
		return
	}
	c := policy.Candidate{Coefficients: r.targets[0].profile.Coefficients}
	r.load(&c.Load, &target{profile: r.targets[0].profile}, now)
	request := policy.Request{PromptTokens: 1000, ExpectedOutputTokens: correction.ColdOutput, MaxOutputTokens: feature.Unknown, Completions: 1}
	r.vectors = append(r.vectors[:0], c.Vector(&request))
	r.ask(now)
}

// probe lets the router probe, now and a little later again.
func (w *world) probe() {
	for _, r := range w.replicas {
		if r.predictor == nil || !r.forecasts() {
			return // none of them has one
		}
		if !r.down {
			r.probe(w.time(w.now))
		}
	}
	w.agenda.set(w.actorProbe, w.now+probeInterval)
}

// park lets a call wait for forecasts until the deadline.
func (w *world) park(c *call) {
	w.parked = append(w.parked, c)
	w.agenda.set(w.actorPark, w.parked[0].at+forecastDeadline)
}

// unpark dispatches the calls that have waited long enough, without forecasts.
func (w *world) unpark() error {
	due := 0
	for ; due < len(w.parked) && w.parked[due].at+forecastDeadline <= w.now; due++ {
		c := w.parked[due]
		c.late = true
		if err := w.dispatch(c); err != nil {
			return err
		}
	}
	w.parked = slices.Delete(w.parked, 0, due)
	at := never
	if len(w.parked) > 0 {
		at = w.parked[0].at + forecastDeadline
	}
	w.agenda.set(w.actorPark, at)
	return nil
}
