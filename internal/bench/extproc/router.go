package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/predictor"
	"github.com/spillway-llm/spillway/router"
	"github.com/spillway-llm/spillway/router/extproc"
	"github.com/spillway-llm/spillway/router/gateway"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

// routerSetting says what a router works with.
type routerSetting struct {
	URLs      []string
	Predictor string
}

// routerReady is where it listens.
type routerReady struct{ Picker, Admin string }

// dropped is where rows end: what it costs to store them is another
// benchmark's.
type dropped struct{ decisions *atomic.Uint64 }

func (d dropped) RecordDecision(feature.Decision) { d.decisions.Add(1) }
func (d dropped) RecordOutcome(feature.Outcome)   {}

// beginRouter runs a router as the command does, with the defaults, but for
// where rows go.
func beginRouter(ctx context.Context, setting []byte) (any, func() spent, error) {
	var s routerSetting
	if err := json.Unmarshal(setting, &s); err != nil {
		return nil, nil, err
	}
	client, err := predictor.Dial(s.Predictor)
	if err != nil {
		return nil, nil, err
	}
	profile, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		return nil, nil, err
	}
	reg := prometheus.NewRegistry()
	decisions := new(atomic.Uint64)
	ready := make(chan router.Serving, 1)
	c := router.Config{
		Listen: "127.0.0.1:0", Picker: "127.0.0.1:0", Admin: "127.0.0.1:0",
		Route: route.Defaults(), Gateway: gateway.Defaults(), ExtProc: extproc.Defaults(),
		Pool:       pool.Config{Interval: time.Second, Timeout: 3 * time.Second},
		Forecaster: &forecaster{client: client}, Recorder: dropped{decisions},
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})), Metrics: reg,
		Ready: func(at router.Serving) { ready <- at },
	}
	c.Route.ForecastDeadline = time.Second // none is given up: its cost is part of the request's
	c.Route.Name, c.Route.DefaultProfile, c.Route.ForecastCandidates = "bench", profile, candidates
	c.ExtProc.TLS.Mode = extproc.TLSOff // which costs the echo as much
	for _, url := range s.URLs {
		c.Pool.Endpoints = append(c.Pool.Endpoints, pool.Endpoint{URL: url, LLMs: []string{llm}})
	}
	router.CollectRarely()
	ended := make(chan error, 1)
	go func() { ended <- router.Run(ctx, c) }()
	report := func() spent {
		u := used()
		u.Decisions = decisions.Load()
		u.Decide = gather(reg, "spillway_router_extproc_decide_seconds")
		return u
	}
	select {
	case at := <-ready:
		return routerReady{at.Picker.String(), at.Admin.String()}, report, nil
	case err := <-ended:
		return nil, nil, errors.Join(err, fmt.Errorf("it ended at once"))
	}
}

// histogram is a Prometheus histogram as far as quantiles need it.
type histogram struct {
	Bounds []float64 // upper, ascending; the last bucket has none
	Counts []uint64  // cumulative, one more than bounds
}

// gather reads a histogram.
func gather(reg *prometheus.Registry, name string) (h histogram) {
	families, err := reg.Gather()
	if err != nil {
		return h
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
			h.Bounds = append(h.Bounds, b.GetUpperBound())
			h.Counts = append(h.Counts, b.GetCumulativeCount())
		}
		h.Counts = append(h.Counts, f.GetMetric()[0].GetHistogram().GetSampleCount())
	}
	return h
}

// quantile is the upper bound of the bucket that holds quantile q of what came
// since before, in seconds; infinite beyond the last bound.
func (h histogram) quantile(before histogram, q float64) float64 {
	total := h.Counts[len(h.Counts)-1] - before.Counts[len(before.Counts)-1]
	for i, bound := range h.Bounds {
		if float64(h.Counts[i]-before.Counts[i]) >= q*float64(total) {
			return bound
		}
	}
	return math.Inf(1)
}
