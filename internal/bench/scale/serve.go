package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"net/http"
	"time"

	"github.com/spillway-llm/spillway/internal/bench/process"
	"github.com/spillway-llm/spillway/internal/bench/served"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router"
	"github.com/spillway-llm/spillway/router/route"
)

const llm = served.LLM

// roles are those that this program plays itself.
var roles = map[string]process.Role{"engines": beginEngines, "router": beginRouter, "proxy": beginProxy}

// ready is where a role serves.
type ready struct{ URLs []string }

// spent answers every line with the CPU time that the process has used.
func spent(string) any {
	user, system := process.CPU()
	return user + system
}

// What an engine says: eight tokens of an answer.
const (
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
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, served.EnginePage) })
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
		url, err := served.Listen(mux)
		if err != nil {
			return nil, nil, err
		}
		at.URLs = append(at.URLs, url)
	}
	return at, spent, nil
}

// beginProxy serves a bare reverse proxy that takes the engines in turn.
func beginProxy(_ context.Context, setting []byte) (any, func(string) any, error) {
	var urls []string
	if err := json.Unmarshal(setting, &urls); err != nil {
		return nil, nil, err
	}
	own, err := served.Proxy(urls)
	return ready{[]string{own}}, spent, err
}

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

// beginRouter runs a router whose forecasts are right.
func beginRouter(ctx context.Context, setting []byte) (any, func(string) any, error) {
	var urls []string
	if err := json.Unmarshal(setting, &urls); err != nil {
		return nil, nil, err
	}
	s, err := served.Router(ctx, urls, slog.LevelError, func(c *router.Config) {
		c.Forecaster = knowing{}
		c.Route.ForecastDeadline = time.Second  // none is given up: its cost is part of the request's
		c.Route.Limits.ReturnHold = time.Second // what begins with a burst is soon well
	})
	if err != nil {
		return nil, nil, err
	}
	return ready{[]string{"http://" + s.Listen.String()}}, spent, nil
}
