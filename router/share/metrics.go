package share

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/router/route"
)

// metrics count what was told and heard.
type metrics struct {
	words      *prometheus.CounterVec // by direction and kind
	unheard    *prometheus.CounterVec // by reason
	ended      *prometheus.CounterVec // by reason
	restored   *prometheus.CounterVec // by where from
	duplicates prometheus.Counter
	overflows  prometheus.Counter
	forgotten  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, n *Node) *metrics {
	m := &metrics{
		words: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_peer_words_total", Help: "What other routers were told (out) and what they said (in), by kind."}, []string{"direction", "kind"}),
		unheard: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_peer_unheard_total", Help: "Words of other routers without an effect: of an endpoint or a life of it that this router does not know, or of more requests than are kept."}, []string{"reason"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_peer_streams_ended_total", Help: "Streams of other routers that ended, by reason; each is begun anew."}, []string{"reason"}),
		restored: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_peer_restored_blocks_total", Help: "Blocks believed to be cached because a peer said so, or a snapshot file."}, []string{"from"}),
		duplicates: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spillway_router_peer_duplicates_total", Help: "Messages of other routers that had been heard before, and were ignored."}),
		overflows: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spillway_router_peer_overflows_total", Help: "Followers so slow that words were dropped; they were told all that is in flight anew."}),
		forgotten: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spillway_router_peer_forgotten_requests_total", Help: "Requests in flight of routers that had become silent."}),
	}
	for _, kind := range route.WordKinds {
		m.words.WithLabelValues("in", kind)
		m.words.WithLabelValues("out", kind)
	}
	for _, why := range route.Unheards {
		m.unheard.WithLabelValues(string(why))
	}
	for _, why := range endings {
		m.ended.WithLabelValues(why)
	}
	for _, from := range origins {
		m.restored.WithLabelValues(from)
	}
	reg.MustRegister(m.words, m.unheard, m.ended, m.restored, m.duplicates, m.overflows, m.forgotten,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "spillway_router_peer_age_seconds", Help: "Time since the last word of the other router that was silent longest; NaN where one was never heard, or there is none.",
		}, n.oldest))
	for _, state := range states {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "spillway_router_peers", Help: "Other routers, by whether they are heard.", ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 { return float64(n.count(state)) }))
	}
	return m
}
