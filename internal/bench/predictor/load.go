package main

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/predictor"
)

// patience is how long a request waits for its forecasts. It is long, so that
// a late answer is measured as what it is.
const patience = time.Second

// asker is a predictor, however it is reached.
type asker interface {
	Forecast(ctx context.Context, llm string, vectors []feature.Vector, out []feature.Forecast) (predictor.Info, error)
}

// outcome is what a load came to.
type outcome struct {
	Rate     float64       `json:"rate"`     // requests a second that were meant
	Requests int           `json:"requests"` // that were sent
	Failed   int           `json:"failed"`   // without all their forecasts
	P50      float64       `json:"p50_ms"`
	P90      float64       `json:"p90_ms"`
	P99      float64       `json:"p99_ms"`
	P999     float64       `json:"p999_ms"`
	Most     float64       `json:"max_ms"`
	Behind   float64       `json:"sent_late_p99_ms"` // of that the client's own: how late it sent
	Elapsed  time.Duration `json:"elapsed_ns"`
}

// load sends requests open-loop, with exponential gaps between them, for the
// duration. A latency counts from when the request was meant to be sent,
// whoever is to blame for what comes then.
func load(ctx context.Context, ask asker, requests [][]feature.Vector, rate float64, duration time.Duration, rng *rand.Rand) outcome {
	var due []time.Duration
	for at := gap(rng, rate); at < duration; at += gap(rng, rate) {
		due = append(due, at)
	}
	latency, behind := make([]time.Duration, len(due)), make([]time.Duration, len(due))
	var failed atomic.Int64
	outs := sync.Pool{New: func() any { out := make([]feature.Forecast, len(requests[0])); return &out }}

	// The pace is kept on a thread of its own, because the runtime's timers are
	// only as fine as a millisecond when the process is idle.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sleep := sleeper()
	var wg sync.WaitGroup
	start := time.Now()
	for i, offset := range due {
		meant := start.Add(offset)
		sleep(meant)
		wg.Go(func() {
			behind[i] = time.Since(meant)
			out := outs.Get().(*[]feature.Forecast)
			ctx, cancel := context.WithTimeout(ctx, patience)
			_, err := ask.Forecast(ctx, llm, requests[i%len(requests)], *out)
			latency[i] = time.Since(meant)
			cancel()
			if err != nil || !allKnown(*out) {
				failed.Add(1)
			}
			outs.Put(out)
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	slices.Sort(latency)
	slices.Sort(behind)
	return outcome{
		Rate: rate, Requests: len(due), Failed: int(failed.Load()), Elapsed: elapsed,
		P50: at(latency, 0.5), P90: at(latency, 0.9), P99: at(latency, 0.99), P999: at(latency, 0.999), Most: at(latency, 1),
		Behind: at(behind, 0.99),
	}
}

func gap(rng *rand.Rand, rate float64) time.Duration {
	return time.Duration(rng.ExpFloat64() / rate * float64(time.Second))
}

func allKnown(forecasts []feature.Forecast) bool {
	return !slices.ContainsFunc(forecasts, func(f feature.Forecast) bool { return !f.Known() })
}

// at is the quantile q of sorted times, in milliseconds: the smallest that at
// least that share does not exceed.
func at(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := min(max(int(q*float64(len(sorted))+0.9999999)-1, 0), len(sorted)-1)
	return float64(sorted[i]) / float64(time.Millisecond)
}
