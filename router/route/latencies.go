package route

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/feature"
)

// latencies are what clients of each LLM met, and how far forecasts were from it.
// Series are made with the first request that is answered in full, so that a name
// that no engine knows has none. Guarded by Router.mu.
type latencies struct {
	ttft, tpot *prometheus.HistogramVec // llm
	errors     *prometheus.HistogramVec // llm, latency
	outcomes   *prometheus.CounterVec   // llm, latency, within
}

// Where an outcome came beside its forecast.
const (
	withinMedian = "p50"    // no later than the p50
	withinMost   = "p90"    // later than that, and no later than the p90
	beyond       = "beyond" // later than the p90
)

func newLatencies(reg prometheus.Registerer) *latencies {
	l := &latencies{
		ttft: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "spillway_router_ttft_seconds",
			Help:    "Time to first token of requests that were answered in full, from their dispatch.",
			Buckets: []float64{.02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 60, 120}}, []string{"llm"}),
		tpot: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "spillway_router_tpot_seconds",
			Help:    "Time per output token after the first of requests that were answered in full.",
			Buckets: []float64{.002, .005, .01, .015, .02, .03, .05, .075, .1, .2, .5}}, []string{"llm"}),
		errors: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "spillway_router_forecast_error_ratio",
			Help:    "How far the forecast p50 was from what was measured, as a share of that, by latency: ttft or tpot.",
			Buckets: []float64{.02, .05, .1, .15, .2, .3, .5, 1, 2, 5}}, []string{"llm", "latency"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_forecast_outcomes_total",
			Help: "Measured latencies that had been forecast, by where they came: within the p50, else within the p90, else beyond."}, []string{"llm", "latency", "within"}),
	}
	reg.MustRegister(l.ttft, l.tpot, l.errors, l.outcomes)
	return l
}

// ended counts a request that was answered in full. Numbers that are not known
// are not counted.
func (l *latencies) ended(llm string, said *feature.Forecast, e *End) {
	if e.TTFT > 0 {
		l.ttft.WithLabelValues(llm).Observe(float64(e.TTFT))
		l.compare(llm, "ttft", &said.TTFT, e.TTFT)
	}
	if e.TPOT > 0 {
		l.tpot.WithLabelValues(llm).Observe(float64(e.TPOT))
		l.compare(llm, "tpot", &said.TPOT, e.TPOT)
	}
}

func (l *latencies) compare(llm, latency string, said *feature.Quantiles, actual feature.Seconds) {
	if !(said.P50 > 0) {
		return
	}
	within := beyond
	switch {
	case actual <= said.P50:
		within = withinMedian
	case actual <= said.P90:
		within = withinMost
	}
	l.outcomes.WithLabelValues(llm, latency, within).Inc()
	l.errors.WithLabelValues(llm, latency).Observe(math.Abs(float64(said.P50/actual) - 1))
}

// forget drops an LLM that gave its place up.
func (l *latencies) forget(llm string) {
	of := prometheus.Labels{"llm": llm}
	l.ttft.Delete(of)
	l.tpot.Delete(of)
	l.errors.DeletePartialMatch(of)
	l.outcomes.DeletePartialMatch(of)
}
