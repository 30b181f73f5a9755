package route

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/router/correction"
	"github.com/spillway-llm/spillway/router/policy"
)

type metrics struct {
	decisions *prometheus.CounterVec
	fallbacks *prometheus.CounterVec
	failures  *prometheus.CounterVec
	changes   *prometheus.CounterVec
	states    *prometheus.GaugeVec
	shed      prometheus.Counter

	stateSeconds *prometheus.CounterVec
	forecast     prometheus.Histogram

	unforecast  *prometheus.CounterVec
	resorts     *prometheus.CounterVec
	disbelieved prometheus.Counter
	spills      *prometheus.CounterVec
	latencies   *latencies
}

// Why a candidate that was worth a forecast has none.
const (
	priorOutOfRange  = "prior"
	answerOutOfRange = "answer"
)

// resultNames label how asking for a forecast ended.
var resultNames = map[correction.Result]string{
	correction.Answered:  "answered",
	correction.Late:      "late",
	correction.Broken:    "broken",
	correction.Untrained: "untrained",
	correction.Mismatch:  "schema",
	correction.Invalid:   "invalid",
}

func newMetrics(reg prometheus.Registerer, r *Router) *metrics {
	m := &metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_decisions_total", Help: "Decisions by the policy that made them."}, []string{"policy"}),
		fallbacks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_fallbacks_total", Help: "Decisions in which forecasts were wanted and did not decide, by forecast state and reason; in live it is a reason of this decision alone."}, []string{"state", "reason"}),
		shed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spillway_router_shed_total", Help: "Requests turned away because they may be and no endpoint's forecast meets their objectives."}),
		stateSeconds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_state_seconds_total", Help: "Time that an LLM spent in each forecast state."}, []string{"llm", "state"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_forecast_failures_total", Help: "Forecast calls that failed, by reason."}, []string{"reason"}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_state_changes_total", Help: "Changes of the forecast state."}, []string{"from", "to"}),
		states: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "spillway_router_state", Help: "1 for the present forecast state of an LLM, 0 for the others."}, []string{"llm", "state"}),
		forecast: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "spillway_router_forecast_seconds", Help: "Time of one forecast call as the router sees it.",
			Buckets: []float64{.0002, .0005, .001, .002, .003, .005, .01, .025, .1}}),
		unforecast: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_rows_unforecast_total", Help: "Candidates worth a forecast that have none because a latency is out of range (0, 600 s]: of the prior, or of the answer after such a prior."}, []string{"reason"}),
		resorts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_last_resort_total", Help: "Requests sent to an endpoint that is not good, because none better was left, by its standing."}, []string{"standing"}),
		disbelieved: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spillway_router_cache_disbelieved_total", Help: "Answers whose engine had less than half of the prefix cached that the router believed."}),
		spills: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_spills_total", Help: "Decisions in which the valve opened: the request left the endpoints that hold its prefix, by the policy that made them."}, []string{"policy"}),
		latencies: newLatencies(reg),
	}
	for _, why := range []string{priorOutOfRange, answerOutOfRange} {
		m.unforecast.WithLabelValues(why)
	}
	for _, s := range []policy.Standing{policy.Dated, policy.Doubtful} {
		m.resorts.WithLabelValues(s.String())
	}
	reg.MustRegister(m.decisions, m.fallbacks, m.failures, m.changes, m.states, m.shed, m.stateSeconds, m.forecast, m.unforecast, m.resorts, m.disbelieved, m.spills, standings{r}, saturation{r})
	return m
}

// lastResort counts a request that was sent to an endpoint of such a standing.
func (m *metrics) lastResort(s policy.Standing) {
	if s != policy.Good {
		m.resorts.WithLabelValues(s.String()).Inc()
	}
}

// standings counts the endpoints of the pool when it is asked.
type standings struct{ router *Router }

var standingsDesc = prometheus.NewDesc("spillway_router_endpoints_standing",
	"Endpoints in the pool by how far they are trusted with requests: good, dated (numbers too old), doubtful (failing), barred (draining).", []string{"standing"}, nil)

func (c standings) Describe(ch chan<- *prometheus.Desc) { ch <- standingsDesc }

func (c standings) Collect(ch chan<- prometheus.Metric) {
	counts := map[policy.Standing]float64{}
	now := time.Now()
	endpoints := c.router.pool.Snapshot().Endpoints
	for i := range endpoints {
		counts[c.router.standing(&endpoints[i], now)]++
	}
	for _, s := range policy.Standings {
		ch <- prometheus.MustNewConstMetric(standingsDesc, prometheus.GaugeValue, counts[s], s.String())
	}
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

// forget drops what is told of an LLM that gave its place up.
func (m *metrics) forget(llm string) {
	m.states.DeletePartialMatch(prometheus.Labels{"llm": llm})
	m.stateSeconds.DeletePartialMatch(prometheus.Labels{"llm": llm})
	m.latencies.forget(llm)
}

// decided counts one decision, and why it fell back if it did.
func (m *metrics) decided(s *scratch) {
	m.decisions.WithLabelValues(s.choice.Policy).Inc()
	if s.choice.Shed {
		m.shed.Inc()
	} else {
		m.lastResort(s.input.Candidates[s.choice.Index].Standing)
	}
	if !s.choice.Shed && s.choice.Reason.Code == policy.Spilled {
		m.spills.WithLabelValues(s.choice.Policy).Inc()
	}
	if s.fell.label != "" {
		m.fallbacks.WithLabelValues(string(s.state), s.fell.label).Inc()
	}
}
