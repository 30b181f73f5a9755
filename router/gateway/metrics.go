package gateway

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/front"
	"github.com/spillway-llm/spillway/router/route"
)

// Reasons of refusals that are this front door's alone.
const (
	reasonRequests = "too_many_requests"
	reasonOfClient = "client_limit"
)

type metrics struct {
	requests *prometheus.CounterVec
	refusals *prometheus.CounterVec
	retries  *prometheus.CounterVec
	answers  *front.Counters
	inFlight prometheus.Gauge

	bodyBytes   prometheus.Histogram
	answerBytes prometheus.Counter
	decide      prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	with := promauto.With(reg)
	m := &metrics{
		requests: with.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_requests_total",
			Help: "Requests that got a decision, by how they ended.",
		}, []string{"status"}),
		refusals: with.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_refusals_total",
			Help: "Requests refused before any endpoint was asked, by reason.",
		}, []string{"reason"}),
		retries: with.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_retries_total",
			Help: "Requests moved to the next best endpoint before the first byte of an answer, by reason.",
		}, []string{"reason"}),
		answers: front.NewCounters(reg, "spillway_router_"),
		inFlight: with.NewGauge(prometheus.GaugeOpts{
			Name: "spillway_router_requests_in_flight",
			Help: "Requests being read, decided or answered.",
		}),
		bodyBytes: with.NewHistogram(prometheus.HistogramOpts{
			Name:    "spillway_router_request_body_bytes",
			Help:    "Length of request bodies.",
			Buckets: prometheus.ExponentialBuckets(256, 4, 10), // to 64 MiB
		}),
		answerBytes: with.NewCounter(prometheus.CounterOpts{
			Name: "spillway_router_answer_bytes_total",
			Help: "Bytes of answers passed on to clients.",
		}),
		decide: with.NewHistogram(prometheus.HistogramOpts{
			Name:    "spillway_router_decide_seconds",
			Help:    "From a request body read to a decision: scan, forecast, choice.",
			Buckets: prometheus.ExponentialBuckets(50e-6, 2, 14), // to 0.4 s
		}),
	}
	for _, s := range []feature.Status{feature.OK, feature.ClientAbort, feature.UpstreamError, feature.UpstreamTimeout, feature.Lost} {
		m.requests.WithLabelValues(string(s))
	}
	for _, why := range route.Causes {
		m.retries.WithLabelValues(string(why))
	}
	for _, why := range []string{
		"unknown_path", "body_too_large", "body_timeout", "body_unreadable", "bad_request", "bad_header", "content_encoding",
		"shed", reasonRequests, reasonOfClient, front.ReasonRoom, "model_not_found", "no_endpoint", "stopping", "client_abort", "internal",
	} {
		m.refusals.WithLabelValues(why)
	}
	return m
}
