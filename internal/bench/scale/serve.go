package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/bench/process"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router"
	"github.com/spillway-llm/spillway/router/gateway"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

const llm = "bench"

// roles are those that this program plays itself.
var roles = map[string]process.Role{"engines": beginEngines, "router": beginRouter, "proxy": beginProxy}

// ready is where a role serves.
type ready struct{ URLs []string }

// spent answers every line with the CPU time that the process has used.
func spent(string) any {
	user, system := process.CPU()
	return user + system
}

// What an engine says: a page like that of vLLM, and eight tokens of an answer.
const (
	page = `process_start_time_seconds 1.8e9
vllm:num_requests_running{engine="0",model_name="bench"} 8
vllm:num_requests_waiting{engine="0",model_name="bench"} 0
vllm:kv_cache_usage_perc{engine="0",model_name="bench"} 0.3
vllm:cache_config_info{block_size="16",num_gpu_blocks="27000",engine="0"} 1
`
	token = `data: {"object":"chat.completion.chunk","model":"bench","choices":[{"index":0,"delta":{"content":" tok"}}]}` + "\n\n"
	last  = `data: {"object":"chat.completion.chunk","model":"bench","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"

	answerTokens = 8
	firstToken   = 300 * time.Millisecond // until it comes: long beside what a busy machine adds, so that forecasts stay right
)

// beginEngines serves so many endpoints, each at a port of its own.
func beginEngines(_ context.Context, setting []byte) (any, func(string) any, error) {
	var n int
	if err := json.Unmarshal(setting, &n); err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		wait := time.NewTimer(firstToken)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		out := http.NewResponseController(w)
		for range answerTokens {
			if _, err := io.WriteString(w, token); err != nil || out.Flush() != nil {
				return
			}
		}
		_, _ = io.WriteString(w, last)
	})
	var at ready
	for range n {
		url, err := listen(mux)
		if err != nil {
			return nil, nil, err
		}
		at.URLs = append(at.URLs, url)
	}
	return at, spent, nil
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

// beginProxy serves a bare reverse proxy that takes the engines in turn.
func beginProxy(_ context.Context, setting []byte) (any, func(string) any, error) {
	var urls []string
	if err := json.Unmarshal(setting, &urls); err != nil {
		return nil, nil, err
	}
	var targets []*url.URL
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			return nil, nil, err
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
		// Else net/http closes the prompt when the answer begins, and a whole answer is
		// broken off now and then.
		_ = http.NewResponseController(w).EnableFullDuplex()
		proxy.ServeHTTP(w, r)
	}))
	return ready{[]string{own}}, spent, err
}

// dropped is where rows end.
type dropped struct{}

func (dropped) RecordDecision(feature.Decision) {}
func (dropped) RecordOutcome(feature.Outcome)   {}

// knowing forecasts what the engines do: a predictor that costs the router nothing
// but to ask it.
type knowing struct{}

func (knowing) Forecast(_ context.Context, _ string, vectors []feature.Vector, out []feature.Forecast) (route.Answer, error) {
	for i := range vectors {
		p, ttft := vectors[i].Prior(), feature.SecondsOf(firstToken)
		r := math.Log(float64(ttft / p.TTFT))
		out[i] = feature.Forecast{
			TTFT: feature.Quantiles{P50: ttft, P90: ttft}, TPOT: feature.Quantiles{P50: p.TPOT, P90: p.TPOT},
			Residual: feature.Residual{TTFT: feature.LogQuantiles{P50: r, P90: r}}, Support: 1,
		}
	}
	return route.Answer{Bundle: 1, Validated: time.Now()}, nil
}

// beginRouter runs a router as the command does, with the defaults, but for
// forecasts and rows.
func beginRouter(ctx context.Context, setting []byte) (any, func(string) any, error) {
	var urls []string
	if err := json.Unmarshal(setting, &urls); err != nil {
		return nil, nil, err
	}
	profile, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		return nil, nil, err
	}
	serving := make(chan router.Serving, 1)
	c := router.Config{
		Listen: "127.0.0.1:0", Admin: "127.0.0.1:0",
		Route: route.Defaults(), Gateway: gateway.Defaults(), Recorder: dropped{}, Forecaster: knowing{},
		Log:     slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Metrics: prometheus.NewRegistry(),
		Ready:   func(s router.Serving) { serving <- s },
	}
	c.Route.ForecastDeadline = time.Second  // none is given up: its cost is part of the request's
	c.Route.Limits.ReturnHold = time.Second // what begins with a burst is soon well
	c.Route.Name, c.Route.DefaultProfile = "bench", profile
	for _, url := range urls {
		c.Pool.Endpoints = append(c.Pool.Endpoints, pool.Endpoint{URL: url, LLMs: []string{llm}})
	}
	ended := make(chan error, 1)
	go func() { ended <- router.Run(ctx, c) }()
	select {
	case s := <-serving:
		return ready{[]string{"http://" + s.Listen.String()}}, spent, nil
	case err := <-ended:
		return nil, nil, errors.Join(err, fmt.Errorf("it ended at once"))
	}
}
