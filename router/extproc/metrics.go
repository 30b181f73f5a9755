package extproc

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/front"
)

type metrics struct {
	requests *prometheus.CounterVec
	refusals *prometheus.CounterVec
	answers  *front.Counters
	streams  prometheus.Gauge
	moved    prometheus.Counter
	silent   prometheus.Counter
	broken   prometheus.Counter
	decide   prometheus.Histogram
	body     prometheus.Histogram
}

// Reasons of refusals that the other front door has not.
const (
	reasonStreams = "too_many_streams"
	reasonMode    = "processing_mode"
)

func newMetrics(reg prometheus.Registerer) *metrics {
	with := promauto.With(reg)
	m := &metrics{
		requests: with.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_extproc_requests_total",
			Help: "Requests of proxies that got a decision, by how they ended.",
		}, []string{"status"}),
		refusals: with.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_extproc_refusals_total",
			Help: "Requests of proxies that were refused before a decision, by reason.",
		}, []string{"reason"}),
		answers: front.NewCounters(reg, "spillway_router_extproc_"),
		streams: with.NewGauge(prometheus.GaugeOpts{
			Name: "spillway_router_extproc_streams",
			Help: "Streams of proxies that are open, one for each request.",
		}),
		moved: with.NewCounter(prometheus.CounterOpts{
			Name: "spillway_router_extproc_moved_total",
			Help: "Requests that another endpoint than the chosen one served.",
		}),
		silent: with.NewCounter(prometheus.CounterOpts{
			Name: "spillway_router_extproc_silent_total",
			Help: "Streams that were ended because nothing came for too long.",
		}),
		broken: with.NewCounter(prometheus.CounterOpts{
			Name: "spillway_router_extproc_protocol_errors_total",
			Help: "Streams that were ended because a proxy broke the protocol.",
		}),
		decide: with.NewHistogram(prometheus.HistogramOpts{
			Name:    "spillway_router_extproc_decide_seconds",
			Help:    "From a request having come to a decision: scan, forecast, choice.",
			Buckets: prometheus.ExponentialBuckets(50e-6, 2, 14), // to 0.4 s
		}),
		body: with.NewHistogram(prometheus.HistogramOpts{
			Name:    "spillway_router_extproc_request_body_bytes",
			Help:    "Length of request bodies.",
			Buckets: prometheus.ExponentialBuckets(256, 4, 10), // to 64 MiB
		}),
	}
	for _, s := range []feature.Status{feature.OK, feature.ClientAbort, feature.UpstreamError, feature.UpstreamTimeout, feature.Lost} {
		m.requests.WithLabelValues(string(s))
	}
	for _, why := range []string{
		"body_too_large", front.ReasonRoom, "body_timeout", "bad_request", "bad_header", "content_encoding",
		"shed", "model_not_found", "no_endpoint", "stopping", "client_abort", "internal", reasonStreams, reasonMode,
	} {
		m.refusals.WithLabelValues(why)
	}
	return m
}
