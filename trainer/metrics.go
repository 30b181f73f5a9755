package trainer

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/trainer/drift"
)

type metrics struct {
	cycles   *prometheus.CounterVec
	refusals *prometheus.CounterVec
	failures prometheus.Counter

	engineFailures prometheus.Counter

	drifts      *prometheus.CounterVec
	lastSuccess prometheus.Gauge
	seconds     prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		cycles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_trainer_refits_total",
			Help: "Refits by outcome: accepted, held, refused, quiet, too_few, unfitted, spoilt."}, []string{"outcome"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_trainer_refusals_total",
			Help: "Grounds on which the gate refused candidates: prior, cart, level, served, constant, head, missing, order, bias, coverage, monotone, leak, window, size, cost, fit. A refusal on several counts for each."},
			[]string{"ground"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spillway_trainer_failures_total", Help: "Refit cycles that ended in an error."}),
		engineFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spillway_trainer_engine_failures_total", Help: "Refits in which the configured engine failed to grow a forest."}),
		drifts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_trainer_drifts_total",
			Help: "Drifts of outcomes from their forecasts that made a refit early, by what moved: ttft_residual, tpot_residual, ttft_coverage, tpot_coverage."},
			[]string{"signal"}),
		lastSuccess: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "spillway_trainer_last_success_timestamp_seconds",
			Help: "When this trainer last ended a cycle of its own without an error, in Unix time; 0 before. It stands still while another trainer holds the lease."}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "spillway_trainer_refit_seconds", Help: "Time of one refit of one LLM.", Buckets: prometheus.ExponentialBuckets(0.1, 3, 9)}),
	}
	for _, outcome := range outcomes {
		m.cycles.WithLabelValues(outcome)
	}
	for _, ground := range grounds {
		m.refusals.WithLabelValues(string(ground))
	}
	for _, signal := range drift.Signals {
		m.drifts.WithLabelValues(string(signal))
	}
	reg.MustRegister(m.cycles, m.refusals, m.drifts, m.failures, m.engineFailures, m.lastSuccess, m.seconds)
	return m
}
