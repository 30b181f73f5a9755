package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/spillway-llm/spillway/internal/bench/served"
	"github.com/spillway-llm/spillway/router"
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

// beginEngines serves engines that answer at once.
func beginEngines(context.Context, []string) (at ready, err error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, served.EnginePage) })
	mux.HandleFunc("POST /v1/chat/completions", generate)
	for range endpoints {
		url, err := served.Listen(mux)
		if err != nil {
			return at, err
		}
		at.URLs = append(at.URLs, url)
	}
	return at, nil
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
func beginProxy(_ context.Context, urls []string) (ready, error) {
	own, err := served.Proxy(urls)
	return ready{URLs: []string{own}}, err
}

// beginRouter runs a router that nobody forecasts for.
func beginRouter(ctx context.Context, urls []string) (ready, error) {
	s, err := served.Router(ctx, urls, slog.LevelWarn, func(*router.Config) {})
	if err != nil {
		return ready{}, err
	}
	return ready{URLs: []string{"http://" + s.Listen.String()}, Admin: "http://" + s.Admin.String()}, nil
}
