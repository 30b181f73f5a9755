package trainer

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	cycles   *prometheus.CounterVec
	failures prometheus.Counter
	seconds  prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		cycles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_trainer_refits_total", Help: "Refits by outcome."}, []string{"outcome"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spillway_trainer_failures_total", Help: "Refit cycles that ended in an error."}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "spillway_trainer_refit_seconds", Help: "Time of one refit of one LLM.", Buckets: prometheus.ExponentialBuckets(0.1, 3, 9)}),
	}
	reg.MustRegister(m.cycles, m.failures, m.seconds)
	return m
}
