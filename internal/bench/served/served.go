// Package served is what benchmarks of whole processes serve in them: a router as
// the command runs it, the bare proxy that it is compared with, and listeners for
// engines that cost next to nothing.
package served

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router"
	"github.com/spillway-llm/spillway/router/gateway"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

// LLM is what every endpoint serves.
const LLM = "bench"

// EnginePage is a metrics page like that of vLLM.
const EnginePage = `process_start_time_seconds 1.8e9
vllm:num_requests_running{engine="0",model_name="bench"} 8
vllm:num_requests_waiting{engine="0",model_name="bench"} 0
vllm:kv_cache_usage_perc{engine="0",model_name="bench"} 0.3
vllm:cache_config_info{block_size="16",num_gpu_blocks="27000",engine="0"} 1
`

// Listen serves at any port of loopback until the process ends, and returns its URL.
func Listen(h http.Handler) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() { _ = http.Serve(l, h) }()
	return "http://" + l.Addr().String(), nil
}

// Proxy serves a reverse proxy that takes the engines in turn, until the process
// ends, and returns its URL.
func Proxy(urls []string) (string, error) {
	var targets []*url.URL
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			return "", err
		}
		targets = append(targets, u)
	}
	var turn atomic.Uint64
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(targets[turn.Add(1)%uint64(len(targets))]) },
		Transport:     gateway.Transport(3 * time.Second),
		FlushInterval: -1,
	}
	return Listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Else net/http closes the prompt when the answer begins, which may be before
		// the transport has seen its end, and a whole answer is broken off.
		_ = http.NewResponseController(w).EnableFullDuplex()
		proxy.ServeHTTP(w, r)
	}))
}

// dropped is where rows end: what it costs to store them is another benchmark's.
type dropped struct{}

func (dropped) RecordDecision(feature.Decision) {}
func (dropped) RecordOutcome(feature.Outcome)   {}

// Router runs a router before the engines until ctx ends, with the command's
// defaults but for rows, which are dropped, and for what set changes. It returns
// when the router serves.
func Router(ctx context.Context, urls []string, log slog.Level, set func(*router.Config)) (router.Serving, error) {
	profile, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		return router.Serving{}, err
	}
	serving := make(chan router.Serving, 1)
	c := router.Config{
		Listen: "127.0.0.1:0", Admin: "127.0.0.1:0",
		Route: route.Defaults(), Gateway: gateway.Defaults(), Recorder: dropped{},
		Log:     slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: log})),
		Metrics: prometheus.NewRegistry(),
		Ready:   func(s router.Serving) { serving <- s },
	}
	c.Route.Name, c.Route.DefaultProfile = "bench", profile
	for _, url := range urls {
		c.Pool.Endpoints = append(c.Pool.Endpoints, pool.Endpoint{URL: url, LLMs: []string{LLM}})
	}
	set(&c)
	ended := make(chan error, 1)
	go func() { ended <- router.Run(ctx, c) }()
	select {
	case s := <-serving:
		return s, nil
	case err := <-ended:
		return router.Serving{}, errors.Join(err, errors.New("it ended at once"))
	}
}
