package route

import (
	"slices"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// How much of the past the status remembers.
const (
	historyLength = 50
	recentLength  = 200
)

// Status is what a person wants to see of a router.
type Status struct {
	Router    string           `json:"router"`
	LLMs      []LLMStatus      `json:"llms"`
	Endpoints []EndpointStatus `json:"endpoints"`
	Changes   []Transition     `json:"changes"` // oldest first
	Recent    []Recent         `json:"recent"`  // oldest first
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
}

// EndpointStatus is one endpoint as the router sees it.
type EndpointStatus struct {
	ID            string          `json:"id"`
	URL           string          `json:"url"`
	Class         string          `json:"class"`
	Healthy       bool            `json:"healthy"`
	Draining      bool            `json:"draining"`
	Age           feature.Seconds `json:"age"` // of the scraped numbers
	Waiting       feature.Number  `json:"waiting"`
	Running       feature.Number  `json:"running"`
	KVUsed        feature.Number  `json:"kv_used"`        // fraction
	InFlight      float64         `json:"in_flight"`      // requests of this router
	PrefillTokens float64         `json:"prefill_tokens"` // of those without a first token
	SpeedFactor   float64         `json:"speed_factor"`   // how many times slower than its class
	Chosen        uint64          `json:"chosen"`
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

// Status describes the router as it is now.
func (r *Router) Status() Status {
	now := time.Now()
	snap := r.pool.Snapshot()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Status{Router: r.config.Name, Changes: slices.Clone(r.changes), Recent: slices.Clone(r.recent)}
	for _, l := range r.llms {
		state, reason, since := l.machine.State()
		fallback := r.config.Fallback
		if fallback == Auto {
			fallback = l.fallback
		}
		s.LLMs = append(s.LLMs, LLMStatus{
			LLM: l.name, State: string(state), Reason: reason, Since: since,
			Policy: r.config.Policy, Fallback: fallback,
			Bundle: l.bundle, Decisions: l.decisions, Forecasts: l.forecasts,
		})
	}
	slices.SortFunc(s.LLMs, func(a, b LLMStatus) int { return strings.Compare(a.LLM, b.LLM) })
	for i := range snap.Endpoints {
		e := &snap.Endpoints[i]
		known := r.endpoint(e)
		scraped := e.Scraped(now)
		flying := r.ledger.State(e.ID, e.Incarnation, now, e.ScrapedAt)
		s.Endpoints = append(s.Endpoints, EndpointStatus{
			ID: e.ID, URL: e.URL, Class: e.Class, Healthy: e.Healthy, Draining: e.Draining,
			Age: scraped.Age, Waiting: feature.Number(scraped.Waiting), Running: feature.Number(scraped.Running), KVUsed: feature.Number(scraped.KVUsed),
			InFlight: flying.Requests, PrefillTokens: flying.PrefillTokens,
			SpeedFactor: known.speed.Factor(now), Chosen: known.chosen,
		})
	}
	return s
}

// remember keeps an ended request for the status.
func (r *Router) remember(t *Ticket, e End, now time.Time) {
	r.recent = append(r.recent, Recent{
		ID: t.id.String(), At: now, LLM: t.llm.name, Endpoint: t.state.ID, Policy: t.policy, Reason: t.reason,
		ForecastTTFT: t.corrected.TTFT.P50, ActualTTFT: e.TTFT,
		ForecastTPOT: t.corrected.TPOT.P50, ActualTPOT: e.TPOT,
		Status: string(e.Status),
	})
	if len(r.recent) >= 2*recentLength {
		r.recent = append(r.recent[:0], r.recent[len(r.recent)-recentLength:]...)
	}
}
