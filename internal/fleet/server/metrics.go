package server

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
)

// Buckets of vLLM's histograms, in seconds (vllm/v1/metrics/loggers.py).
var (
	ttftBuckets = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	itlBuckets  = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	e2eBuckets  = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
)

// meters is the metrics page of one life, under vLLM's names. Gauges and
// counters show what the engine published at its last step end.
type meters struct {
	registry            *prometheus.Registry
	published           atomic.Pointer[fleet.Metrics]
	ttft, itl, tpot     prometheus.Histogram
	e2e                 prometheus.Histogram
	stop, length, abort prometheus.Counter
}

func newMeters(model string, p physics.Profile, blocks int, started time.Time) *meters {
	m := &meters{registry: prometheus.NewRegistry()}
	m.published.Store(&fleet.Metrics{})
	reg := prometheus.WrapRegistererWith(prometheus.Labels{"engine": "0", "model_name": model}, m.registry)
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
		reg.MustRegister(h)
		return h
	}
	m.ttft = histogram("vllm:time_to_first_token_seconds", "Time to first token.", ttftBuckets)
	m.itl = histogram("vllm:inter_token_latency_seconds", "Time between two tokens of a request.", itlBuckets)
	m.tpot = histogram("vllm:time_per_output_token_seconds", "Older name of the inter-token latency.", itlBuckets)
	m.e2e = histogram("vllm:e2e_request_latency_seconds", "Time from arrival to the last token.", e2eBuckets)
	success := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "vllm:request_success_total", Help: "Requests that ended, by reason."}, []string{"finished_reason"})
	m.stop, m.length, m.abort = success.WithLabelValues("stop"), success.WithLabelValues("length"), success.WithLabelValues("abort")
	config := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "vllm:cache_config_info", Help: "Configuration of the KV cache.",
		ConstLabels: prometheus.Labels{
			"block_size": strconv.Itoa(p.BlockTokens), "num_gpu_blocks": strconv.Itoa(blocks), "enable_prefix_caching": "True",
		},
	})
	config.Set(1)
	reg.MustRegister(success, config, collector{m})
	start := prometheus.NewGauge(prometheus.GaugeOpts{Name: "process_start_time_seconds", Help: "Start of this incarnation, seconds since the epoch."})
	start.Set(float64(started.UnixNano()) / 1e9)
	m.registry.MustRegister(start)
	return m
}

func (m *meters) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

func (m *meters) publish(now fleet.Metrics) {
	if now != *m.published.Load() {
		m.published.Store(&now)
	}
}

func (m *meters) firstToken(d time.Duration) { m.ttft.Observe(d.Seconds()) }

func (m *meters) nextToken(d time.Duration) {
	m.itl.Observe(d.Seconds())
	m.tpot.Observe(d.Seconds())
}

func (m *meters) finished(d time.Duration, capped bool) {
	m.e2e.Observe(d.Seconds())
	if capped {
		m.length.Inc()
	} else {
		m.stop.Inc()
	}
}

func (m *meters) aborted() { m.abort.Inc() }

// publishedMetrics are the rows read from fleet.Metrics.
var publishedMetrics = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*fleet.Metrics) float64
}{
	{desc("vllm:num_requests_running", "Requests in the batch."), prometheus.GaugeValue, func(m *fleet.Metrics) float64 { return float64(m.Running) }},
	{desc("vllm:num_requests_waiting", "Requests in line."), prometheus.GaugeValue, func(m *fleet.Metrics) float64 { return float64(m.Waiting) }},
	{desc("vllm:kv_cache_usage_perc", "Used part of the KV cache, 1 is all."), prometheus.GaugeValue, func(m *fleet.Metrics) float64 { return m.KVUsed }},
	{desc("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache."), prometheus.CounterValue, func(m *fleet.Metrics) float64 { return float64(m.PrefixQueryTokens) }},
	{desc("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache."), prometheus.CounterValue, func(m *fleet.Metrics) float64 { return float64(m.PrefixHitTokens) }},
	{desc("vllm:prompt_tokens_total", "Prompt tokens processed."), prometheus.CounterValue, func(m *fleet.Metrics) float64 { return float64(m.PromptTokens) }},
	{desc("vllm:generation_tokens_total", "Tokens generated."), prometheus.CounterValue, func(m *fleet.Metrics) float64 { return float64(m.GeneratedTokens) }},
	{desc("vllm:num_preemptions_total", "Requests sent back to the line for want of KV blocks."), prometheus.CounterValue, func(m *fleet.Metrics) float64 { return float64(m.Preemptions) }},
}

func desc(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }

type collector struct{ *meters }

func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, row := range publishedMetrics {
		ch <- row.desc
	}
}

func (c collector) Collect(ch chan<- prometheus.Metric) {
	now := c.published.Load()
	for _, row := range publishedMetrics {
		ch <- prometheus.MustNewConstMetric(row.desc, row.kind, row.value(now))
	}
}
