package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"

	"github.com/spillway-llm/spillway/internal/socket"
)

// fleetReady is where the endpoints are.
type fleetReady struct{ URLs []string }

// beginFleet serves the metrics pages of so many endpoints, each at a port of
// its own.
func beginFleet(_ context.Context, setting []byte) (any, func() spent, error) {
	var n int
	if err := json.Unmarshal(setting, &n); err != nil {
		return nil, nil, err
	}
	page := metricsPage()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(page)
	})
	var ready fleetReady
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, err
		}
		ready.URLs = append(ready.URLs, "http://"+l.Addr().String())
		go func() { _ = http.Serve(socket.QuietListener(l), mux) }() // until the process ends
	}
	return ready, used, nil
}

// metricsPage is a page like vLLM's, of the size that is judged: some gauges
// and counters, and histograms for the rest of it.
func metricsPage() []byte {
	var b bytes.Buffer
	for _, m := range []struct {
		name, kind, labels string
		value              float64
	}{
		{"process_start_time_seconds", "gauge", "", 1.8e9},
		{"vllm:num_requests_running", "gauge", `{engine="0",model_name="bench"}`, 12},
		{"vllm:num_requests_waiting", "gauge", `{engine="0",model_name="bench"}`, 1},
		{"vllm:kv_cache_usage_perc", "gauge", `{engine="0",model_name="bench"}`, 0.41},
		{"vllm:cache_config_info", "gauge", `{block_size="16",cache_dtype="auto",num_gpu_blocks="27000",engine="0"}`, 1},
		{"vllm:generation_tokens_total", "counter", `{engine="0",model_name="bench"}`, 123456},
		{"vllm:prompt_tokens_total", "counter", `{engine="0",model_name="bench"}`, 1234567},
	} {
		fmt.Fprintf(&b, "# HELP %s What it says.\n# TYPE %s %s\n%s%s %g\n", m.name, m.name, m.kind, m.name, m.labels, m.value)
	}
	for h := 0; b.Len() < pageBytes; h++ {
		name := fmt.Sprintf("vllm:request_phase_%d_seconds", h)
		fmt.Fprintf(&b, "# HELP %s Histogram of a phase of requests.\n# TYPE %s histogram\n", name, name)
		for le := 0.001; le < 2000 && b.Len() < pageBytes; le *= 2 {
			fmt.Fprintf(&b, "%s_bucket{engine=\"0\",le=\"%g\",model_name=\"bench\"} %g\n", name, le, 1e5-1/le)
		}
	}
	return b.Bytes()
}
