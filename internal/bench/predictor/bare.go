package main

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
)

// evaluation is a way to make the forecasts of one request.
type evaluation func(vectors []feature.Vector, out []feature.Forecast)

// bareOf is the evaluation of a bundle with nothing around it.
func bareOf(data []byte) (evaluation, error) {
	b, err := bundle.Decode(data)
	if err != nil {
		return nil, err
	}
	e, err := b.Evaluator()
	if err != nil {
		return nil, err
	}
	return e.Evaluate, nil
}

// evaluationOf is the evaluation of what is asked in this process.
func evaluationOf(ctx context.Context, ask asker) evaluation {
	return func(vectors []feature.Vector, out []feature.Forecast) {
		if _, err := ask.Forecast(ctx, llm, vectors, out); err != nil {
			panic(err) // nothing is missing and nobody stops it
		}
	}
}

// passLength is how long one pass of a measurement lasts at least.
const passLength = 100 * time.Millisecond

// cpuPerRequest is the CPU time that each of the evaluations takes for one of
// the requests, on one thread: the median of so many passes. The evaluations
// take turns, so that none has the quieter machine.
func cpuPerRequest(evaluations []evaluation, requests [][]feature.Vector, passes int) []time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out := make([]feature.Forecast, len(requests[0]))
	all := make([][]time.Duration, len(evaluations))
	for range passes {
		for e, evaluate := range evaluations {
			n, began := 0, threadTime()
			for threadTime()-began < passLength {
				for _, vectors := range requests {
					evaluate(vectors, out)
				}
				n += len(requests)
			}
			all[e] = append(all[e], (threadTime()-began)/time.Duration(n))
		}
	}
	median := make([]time.Duration, len(all))
	for e, times := range all {
		slices.Sort(times)
		median[e] = times[len(times)/2]
	}
	return median
}
