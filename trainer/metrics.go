package trainer

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	cycles      *prometheus.CounterVec
	refusals    *prometheus.CounterVec
	failures    prometheus.Counter
	lastSuccess prometheus.Gauge
	seconds     prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		cycles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_trainer_refits_total",
			Help: "Refits by outcome: accepted, held, refused, quiet, too_few, unfitted."}, []string{"outcome"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_trainer_refusals_total",
			Help: "Grounds on which the gate refused candidates: prior, cart, served, constant, head, missing. A refusal on several counts for each."},
			[]string{"ground"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spillway_trainer_failures_total", Help: "Refit cycles that ended in an error."}),
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
	reg.MustRegister(m.cycles, m.refusals, m.failures, m.lastSuccess, m.seconds)
	return m
}
