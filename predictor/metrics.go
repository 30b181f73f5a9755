package predictor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/spillway-llm/spillway/internal/feature"
)

// metrics are what a Server counts. Label sets are closed; llm is one of the
// published LLMs.
type metrics struct {
	seconds      prometheus.Histogram
	requests     *prometheus.CounterVec // by status
	answered     prometheus.Counter     // requests with the status ok
	swaps        *prometheus.CounterVec // by result
	sourceErrors *prometheus.CounterVec // by call
	dropped      *prometheus.CounterVec // by reason

	rowsOK, rowsInvalid, rowsUnsupported prometheus.Counter
}

// Why a connection is ended that its caller has not ended.
const (
	droppedOversized = "oversized" // a frame was larger than any request
	droppedUnread    = "unread"    // answers were left unread for too long
	droppedSilent    = "silent"    // it did not say in time what it speaks
)

func newMetrics(registerer prometheus.Registerer, s *Server) *metrics {
	auto := promauto.With(registerer)
	counter := func(name, help, label string, values ...string) *prometheus.CounterVec {
		vec := auto.NewCounterVec(prometheus.CounterOpts{Name: "spillway_predictor_" + name, Help: help}, []string{label})
		for _, v := range values {
			vec.WithLabelValues(v)
		}
		return vec
	}
	rows := counter("rows_total", "Rows forecast, by what came of them.", "status", "ok", "invalid_vector", "unsupported")
	m := &metrics{
		seconds: auto.NewHistogram(prometheus.HistogramOpts{
			Name:    "spillway_predictor_forecast_seconds",
			Help:    "Time to make all forecasts of one call, waiting for others included, without the wire.",
			Buckets: prometheus.ExponentialBuckets(25e-6, 2, 14), // 25 us to 0.2 s
		}),
		requests: counter("requests_total", "Forecast calls, by how they ended: expired is a deadline that passed before anything was evaluated.", "status",
			"ok", "untrained", "schema", "full", "expired", "deadline", "canceled", "invalid"),
		swaps: counter("swaps_total", "Attempts to serve a newly published bundle, by how they ended.", "result",
			swapped, fetchFailed, badChecksum, badBundle, badSchema, badCheck, disagree, withdrawn),
		sourceErrors: counter("source_errors_total", "Failed calls to the source of bundles, by call.", "call", "published", "listen"),
		dropped: counter("connections_dropped_total", "Connections that were ended for what their caller did, by what that was.", "reason",
			droppedOversized, droppedUnread, droppedSilent),

		rowsOK:          rows.WithLabelValues("ok"),
		rowsInvalid:     rows.WithLabelValues("invalid_vector"),
		rowsUnsupported: rows.WithLabelValues("unsupported"),
	}
	m.answered = m.requests.WithLabelValues("ok")
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "spillway_predictor_queue_requests", Help: "Forecast calls that wait for others to be evaluated.",
	}, func() float64 { return float64(s.queue.waiting.Load()) })
	if registerer != nil {
		registerer.MustRegister(tableMetrics{s})
	}
	return m
}

func (m *metrics) countRows(forecasts []feature.Forecast) {
	var invalid, unsupported int
	for i := range forecasts {
		switch {
		case !forecasts[i].Known():
			invalid++
		case forecasts[i].Support < farOutside:
			unsupported++
		}
	}
	m.rowsOK.Add(float64(len(forecasts) - invalid - unsupported))
	m.rowsInvalid.Add(float64(invalid))
	m.rowsUnsupported.Add(float64(unsupported))
}

// tableMetrics tells what is served at the moment of a scrape.
type tableMetrics struct{ server *Server }

var (
	bundleVersion = prometheus.NewDesc("spillway_predictor_bundle_version",
		"Version of the bundle that forecasts are made from; 0 for none.", []string{"llm"}, nil)
	bundleAge = prometheus.NewDesc("spillway_predictor_bundle_age_seconds",
		"Time since that bundle was last validated.", []string{"llm"}, nil)
	bundleState = prometheus.NewDesc("spillway_predictor_state",
		"1 for the state an LLM is served in, 0 for the others.", []string{"llm", "state"}, nil)
)

func (t tableMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- bundleVersion
	ch <- bundleAge
	ch <- bundleState
}

func (t tableMetrics) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	for _, l := range t.server.Status().LLMs {
		ch <- prometheus.MustNewConstMetric(bundleVersion, prometheus.GaugeValue, float64(l.Bundle), l.LLM)
		if l.Bundle != 0 {
			ch <- prometheus.MustNewConstMetric(bundleAge, prometheus.GaugeValue, now.Sub(l.ValidatedAt).Seconds(), l.LLM)
		}
		for _, state := range states {
			value := 0.0
			if l.State == state {
				value = 1
			}
			ch <- prometheus.MustNewConstMetric(bundleState, prometheus.GaugeValue, value, l.LLM, string(state))
		}
	}
}
