package route

import (
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/pool"
)

// How much of the past the status remembers.
const (
	historyLength = 50
	recentLength  = 200
)

// Status is what a person wants to see of a router.
type Status struct {
	Router    string              `json:"router"`
	LLMs      []LLMStatus         `json:"llms"`
	Endpoints []EndpointStatus    `json:"endpoints"`
	Peers     []PeerStatus        `json:"peers,omitempty"`
	Sources   []pool.SourceStatus `json:"sources,omitempty"`     // that endpoints are heard of from
	Drill     *time.Time          `json:"drill_until,omitempty"` // a fallback drill ends then
	Changes   []Transition        `json:"changes"`               // oldest first
	Recent    []Recent            `json:"recent"`                // oldest first
}

// LLMStatus is the forecast state of one LLM.
type LLMStatus struct {
	LLM       string    `json:"llm"`
	State     string    `json:"state"`
	Reason    string    `json:"reason"`
	Since     time.Time `json:"since"`
	Policy    string    `json:"policy"`   // configured
	Fallback  string    `json:"fallback"` // that decides now when forecasts may not
	Bundle    int64     `json:"bundle"`   // that answered last
	Decisions uint64    `json:"decisions"`
	Forecasts uint64    `json:"forecasts"` // decisions that forecasts decided
	Shed      uint64    `json:"shed"`      // of them, requests turned away
}

// EndpointStatus is one endpoint as the router sees it.
type EndpointStatus struct {
	ID            string          `json:"id"`
	URL           string          `json:"url"`
	Class         string          `json:"class"`
	Healthy       bool            `json:"healthy"`
	Draining      bool            `json:"draining"`
	Standing      string          `json:"standing"` // good, dated, doubtful or barred
	Age           feature.Seconds `json:"age"`      // of the scraped numbers
	Waiting       feature.Number  `json:"waiting"`
	Running       feature.Number  `json:"running"`
	KVUsed        feature.Number  `json:"kv_used"`        // fraction
	InFlight      feature.Number  `json:"in_flight"`      // requests of this router
	Elsewhere     feature.Number  `json:"elsewhere"`      // requests of other routers, as they say
	PrefillTokens feature.Number  `json:"prefill_tokens"` // of those without a first token
	SpeedFactor   feature.Number  `json:"speed_factor"`   // how many times slower than its class
	Chosen        uint64          `json:"chosen"`
	Share         feature.Number  `json:"share"` // of the last minute's requests, as a fraction
}

// Transition is one change of an LLM's forecast state.
type Transition struct {
	At     time.Time `json:"at"`
	LLM    string    `json:"llm"`
	From   string    `json:"from"`
	To     string    `json:"to"`
	Reason string    `json:"reason"`
}

// Recent is a request that ended not long ago: forecast beside actual.
type Recent struct {
	ID           string          `json:"id"`
	At           time.Time       `json:"at"`
	LLM          string          `json:"llm"`
	Endpoint     string          `json:"endpoint"`
	Policy       string          `json:"policy"`
	Reason       string          `json:"reason"`
	ForecastTTFT feature.Seconds `json:"forecast_ttft"`
	ActualTTFT   feature.Seconds `json:"actual_ttft"`
	ForecastTPOT feature.Seconds `json:"forecast_tpot"`
	ActualTPOT   feature.Seconds `json:"actual_tpot"`
	Status       string          `json:"status"`
}

// Status describes the router as it is now. Numbers that are not known are
// null in its JSON.
func (r *Router) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.sync()
	s := Status{
		Router:  r.config.Name,
		Changes: slices.Clone(r.changes),
		Recent:  slices.Clone(r.recent[max(0, len(r.recent)-recentLength):]),
	}
	for _, l := range r.sorted() {
		s.LLMs = append(s.LLMs, r.llmStatus(l))
	}
	if r.others != nil {
		s.LLMs = append(s.LLMs, r.llmStatus(r.others))
	}
	if now.Before(r.drill) {
		until := r.drill
		s.Drill = &until
	}
	total := 0.0
	for _, e := range r.present {
		total += e.pace.rate
	}
	for _, e := range r.present {
		x := r.endpointStatus(e, now)
		x.Share = feature.Number(feature.Unknown)
		if total > quietPace {
			x.Share = feature.Number(e.pace.rate / total)
		}
		s.Endpoints = append(s.Endpoints, x)
	}
	return s
}

func (r *Router) llmStatus(l *llm) LLMStatus {
	state, reason, since := l.guard.State()
	arm, _ := r.at(time.Now())
	fallback := arm.Fallback
	if fallback == Auto {
		fallback = matched(l.demand.Last())
	}
	return LLMStatus{
		LLM: l.name, State: string(state), Reason: reason, Since: since,
		Policy: arm.Policy, Fallback: fallback,
		Bundle: l.guard.Bundle(), Decisions: l.decisions, Forecasts: l.forecasts, Shed: l.shed,
	}
}

func (r *Router) endpointStatus(e *endpoint, now time.Time) EndpointStatus {
	var load feature.Load
	e.load(r, now, &load)
	own := float64(r.ledger.Own(e.id, e.incarnation))
	return EndpointStatus{
		ID: e.id, URL: e.state.URL, Class: e.state.Class, Healthy: e.state.Healthy, Draining: e.state.Draining,
		Standing:      r.standing(e.state, now).String(),
		Age:           load.Scraped.Age,
		Waiting:       feature.Number(load.Scraped.Waiting),
		Running:       feature.Number(load.Scraped.Running),
		KVUsed:        feature.Number(load.Scraped.KVUsed),
		InFlight:      feature.Number(own),
		Elsewhere:     feature.Number(load.Ledger.Requests - own),
		PrefillTokens: feature.Number(load.Ledger.PrefillTokens),
		SpeedFactor:   feature.Number(load.Profile.SpeedFactor),
		Chosen:        e.chosen,
	}
}

// pace is how many requests an endpoint is given a second, over about a minute.
type pace struct {
	rate   float64
	chosen uint64 // when it was last brought up to date
}

// quietPace is a rate of a whole fleet below which shares of it mean nothing.
const quietPace = 1e-3

// tick takes in one second; chosen is how often the endpoint was.
func (p *pace) tick(chosen uint64) {
	const memory = 60
	p.rate += (float64(chosen-p.chosen) - p.rate) / memory
	p.chosen = chosen
}

// remember keeps an ended request for the status.
func (r *Router) remember(t *Ticket, e *End, now time.Time) {
	t.llm.history.ended(now, &t.corrected, e)
	if l := t.llm; e.Status == feature.OK && (l == r.others || l == r.llms[l.name]) { // else its labels went with its place
		r.metrics.latencies.ended(l.name, &t.corrected, e)
	}
	r.recent = append(r.recent, Recent{
		ID: t.id.String(), At: now, LLM: t.llm.name, Endpoint: t.endpoint.id, Policy: t.policy, Reason: t.reason,
		ForecastTTFT: t.corrected.TTFT.P50, ActualTTFT: e.TTFT,
		ForecastTPOT: t.corrected.TPOT.P50, ActualTPOT: e.TPOT,
		Status: string(e.Status),
	})
	if len(r.recent) >= 2*recentLength {
		r.recent = append(r.recent[:0], r.recent[len(r.recent)-recentLength:]...)
	}
}
