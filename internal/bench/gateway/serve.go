package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
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

// What a request tells its engine: how many tokens, and how long to wait before
// each but the first.
const (
	headerTokens = "X-Bench-Tokens"
	headerPace   = "X-Bench-Pace"
)

// What an engine streams: 120 bytes a token, as vLLM's chat chunks without
// their ids.
const (
	tokenEvent = `data: {"object":"chat.completion.chunk","model":"bench","choices":[{"index":0,"delta":{"content":" tok"}}],"pad":"......"}` + "\n\n"
	lastEvents = `data: {"object":"chat.completion.chunk","model":"bench","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" + "data: [DONE]\n\n"
)

// engineMetrics is the page that engines show.
const engineMetrics = `process_start_time_seconds 1.8e9
vllm:num_requests_running{engine="0",model_name="bench"} 8
vllm:num_requests_waiting{engine="0",model_name="bench"} 0
vllm:kv_cache_usage_perc{engine="0",model_name="bench"} 0.3
vllm:cache_config_info{block_size="16",num_gpu_blocks="27000",engine="0"} 1
`

// beginEngines serves engines that answer at once.
func beginEngines(context.Context, []string) (at ready, err error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, engineMetrics) })
	mux.HandleFunc("POST /v1/chat/completions", generate)
	for range endpoints {
		url, err := listen(mux)
		if err != nil {
			return at, err
		}
		at.URLs = append(at.URLs, url)
	}
	return at, nil
}

// listen serves at any port until the process ends.
func listen(h http.Handler) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() { _ = http.Serve(l, h) }()
	return "http://" + l.Addr().String(), nil
}

// generate takes the prompt in and streams what the headers ask for, a write
// and a flush for each token.
func generate(w http.ResponseWriter, r *http.Request) {
	tokens, err := strconv.Atoi(r.Header.Get(headerTokens))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	pace, err := time.ParseDuration(r.Header.Get(headerPace))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	var tick *time.Ticker
	if pace > 0 {
		tick = time.NewTicker(pace)
		defer tick.Stop()
	}
	for i := range tokens {
		if tick != nil && i > 0 {
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
		if _, err := io.WriteString(w, tokenEvent); err != nil || out.Flush() != nil {
			return
		}
	}
	_, _ = io.WriteString(w, lastEvents)
}

// beginProxy serves a reverse proxy that takes the engines in turn.
func beginProxy(_ context.Context, urls []string) (at ready, err error) {
	var targets []*url.URL
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			return at, err
		}
		targets = append(targets, u)
	}
	var turn atomic.Uint64
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(targets[turn.Add(1)%uint64(len(targets))]) },
		Transport:     gateway.Transport(3 * time.Second),
		FlushInterval: -1,
	}
	own, err := listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Else net/http closes the prompt when the answer begins, which may be before
		// the transport has seen its end, and a whole answer is broken off.
		_ = http.NewResponseController(w).EnableFullDuplex()
		proxy.ServeHTTP(w, r)
	}))
	return ready{URLs: []string{own}}, err
}

// dropped is where rows end: what it costs to store them is another
// benchmark's.
type dropped struct{}

func (dropped) RecordDecision(feature.Decision) {}
func (dropped) RecordOutcome(feature.Outcome)   {}

// beginRouter runs a router as the command does, with the defaults, but for
// forecasts and rows.
func beginRouter(ctx context.Context, urls []string) (at ready, err error) {
	profile, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		return at, err
	}
	serving := make(chan router.Serving, 1)
	c := router.Config{
		Listen: "127.0.0.1:0", Admin: "127.0.0.1:0",
		Route: route.Defaults(), Gateway: gateway.Defaults(), Recorder: dropped{},
		Log:     slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Metrics: prometheus.NewRegistry(),
		Ready:   func(s router.Serving) { serving <- s },
	}
	c.Route.Name, c.Route.DefaultProfile = "bench", profile
	for _, url := range urls {
		c.Pool.Endpoints = append(c.Pool.Endpoints, pool.Endpoint{URL: url, LLMs: []string{llm}})
	}
	ended := make(chan error, 1)
	go func() { ended <- router.Run(ctx, c) }()
	select {
	case s := <-serving:
		return ready{URLs: []string{"http://" + s.Listen.String()}, Admin: "http://" + s.Admin.String()}, nil
	case err := <-ended:
		return at, errors.Join(err, fmt.Errorf("it ended at once"))
	}
}
