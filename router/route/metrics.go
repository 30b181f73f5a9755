package route

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/router/correction"
)

type metrics struct {
	decisions *prometheus.CounterVec
	fallbacks *prometheus.CounterVec
	failures  *prometheus.CounterVec
	changes   *prometheus.CounterVec
	states    *prometheus.GaugeVec
	forecast  prometheus.Histogram
}

// resultNames label how asking for a forecast ended.
var resultNames = map[correction.Result]string{
	correction.Answered:  "answered",
	correction.Late:      "late",
	correction.Broken:    "broken",
	correction.Untrained: "untrained",
	correction.Mismatch:  "schema",
	correction.Invalid:   "invalid",
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_decisions_total", Help: "Decisions by the policy that made them."}, []string{"policy"}),
		fallbacks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_fallbacks_total", Help: "Decisions in which forecasts were wanted and did not decide, by forecast state; live means this one forecast failed."}, []string{"state"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_forecast_failures_total", Help: "Forecast calls that failed, by reason."}, []string{"reason"}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_state_changes_total", Help: "Changes of the forecast state."}, []string{"from", "to"}),
		states: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "spillway_router_state", Help: "1 for the present forecast state of an LLM, 0 for the others."}, []string{"llm", "state"}),
		forecast: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "spillway_router_forecast_seconds", Help: "Time of one forecast call as the router sees it.",
			Buckets: []float64{.0002, .0005, .001, .002, .003, .005, .01, .025, .1}}),
	}
	reg.MustRegister(m.decisions, m.fallbacks, m.failures, m.changes, m.states, m.forecast)
	return m
}

// state shows which state an LLM is in.
func (m *metrics) state(llm string, now correction.State) {
	for _, s := range correction.States {
		v := 0.0
		if s == now {
			v = 1
		}
		m.states.WithLabelValues(llm, string(s)).Set(v)
	}
}

// decided counts one decision.
func (m *metrics) decided(s *scratch) {
	m.decisions.WithLabelValues(s.choice.Policy).Inc()
	if s.input.Policy != s.choice.Policy {
		m.fallbacks.WithLabelValues(string(s.state)).Inc()
	}
}
