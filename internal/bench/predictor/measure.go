package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/predictor"
)

// bencher is what the measurements need.
type bencher struct {
	options
	world   world
	rng     *rand.Rand
	process *process
	client  *predictor.Client
	bundle  []byte
}

// results is everything that was measured.
type results struct {
	Judged    outcome  `json:"judged"`     // 16 candidates, over the socket
	InProcess outcome  `json:"in_process"` // the same without the socket
	Swapping  outcome  `json:"swapping"`   // over the socket, a new bundle every second
	Highest   []search `json:"highest"`    // of more candidates

	// CPU time of one request of 16 candidates, in microseconds.
	Served       float64 `json:"served_cpu_us"`         // of the server's process, over the socket
	ServedUser   float64 `json:"served_user_cpu_us"`    // of that outside the kernel
	InProcessCPU float64 `json:"in_process_cpu_us"`     // in process, one thread
	Bare         float64 `json:"bare_cpu_us"`           // bare evaluation, one thread
	Leaves       float64 `json:"leaves_cpu_us"`         // in process with leaves, one thread
	RowsPerCPU   float64 `json:"bare_rows_per_cpu_s"`   // bare evaluation
	LeavesRows   float64 `json:"leaves_rows_per_cpu_s"` // in process with leaves
}

// search is the highest rate that kept its promise.
type search struct {
	Candidates int     `json:"candidates"`
	Best       outcome `json:"best"`      // zero when none did
	BareRate   float64 `json:"bare_rate"` // requests a CPU second of the bare evaluation
}

func (b *bencher) measure(ctx context.Context, w io.Writer) (results, error) {
	var r results
	requests := b.world.requestsOf(judgedRows)
	if err := b.warm(ctx, requests); err != nil {
		return r, err
	}
	if err := b.cpu(ctx, requests, &r); err != nil {
		return r, err
	}
	fmt.Fprintf(w, "%d requests/s of %d candidates for %v\n", judgedRate, judgedRows, b.duration)
	before, err := b.process.used()
	if err != nil {
		return r, err
	}
	r.Judged = load(ctx, b.client, requests, judgedRate, b.duration, b.rng)
	after, err := b.process.used()
	if err != nil {
		return r, err
	}
	spent := after.minus(before)
	r.Served, r.ServedUser = micros(spent.sum())/float64(r.Judged.Requests), micros(spent.User)/float64(r.Judged.Requests)

	if r.Swapping, err = b.swapping(ctx, requests); err != nil {
		return r, err
	}
	local, err := server(ctx, b.bundle, versionOne(), predictor.Flat)
	if err != nil {
		return r, err
	}
	r.InProcess = load(ctx, predictor.InProcess(local), requests, judgedRate, b.duration/6, b.rng)
	for _, candidates := range []int{100, 200} {
		fmt.Fprintf(w, "the highest rate of %d candidates\n", candidates)
		s, err := b.highest(ctx, candidates)
		if err != nil {
			return r, err
		}
		r.Highest = append(r.Highest, s)
	}
	return r, ctx.Err()
}

// swapping loads the server while it swaps in a new bundle every second.
func (b *bencher) swapping(ctx context.Context, requests [][]feature.Vector) (outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	var swaps errgroup.Group
	swaps.Go(func() error {
		for tick := time.Tick(time.Second); ; {
			select {
			case <-ctx.Done():
				return nil
			case <-tick:
				if err := b.process.swap(); err != nil {
					return err
				}
			}
		}
	})
	o := load(ctx, b.client, requests, judgedRate, b.duration/6, b.rng)
	cancel()
	return o, swaps.Wait()
}

// warm asks until connection, heap and caches are as they stay.
func (b *bencher) warm(ctx context.Context, requests [][]feature.Vector) error {
	if o := load(ctx, b.client, requests, judgedRate, time.Second, b.rng); o.Failed > 0 {
		return fmt.Errorf("%d of %d requests failed before anything was measured", o.Failed, o.Requests)
	}
	return nil
}

// cpu measures what evaluations cost on one thread.
func (b *bencher) cpu(ctx context.Context, requests [][]feature.Vector, r *results) error {
	bare, err := bareOf(b.bundle)
	if err != nil {
		return err
	}
	evaluations := []evaluation{bare}
	for _, evaluator := range []predictor.Evaluator{predictor.Flat, predictor.Leaves} {
		s, err := server(ctx, b.bundle, versionOne(), evaluator)
		if err != nil {
			return err
		}
		evaluations = append(evaluations, evaluationOf(ctx, predictor.InProcess(s)))
	}
	passes := max(3, int(b.duration/(4*time.Second)))
	times := cpuPerRequest(evaluations, requests, passes)
	r.Bare, r.InProcessCPU, r.Leaves = micros(times[0]), micros(times[1]), micros(times[2])
	r.RowsPerCPU, r.LeavesRows = judgedRows*1e6/r.Bare, judgedRows*1e6/r.Leaves
	return nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// slowest is the p99 that a rate of more candidates must hold, in milliseconds.
const slowest = 5

// holds reports whether a load kept the promise: every request answered, 99 %
// of them in time.
func (o outcome) holds() bool { return o.Failed == 0 && o.P99 <= slowest }

// Steps of the search for the highest rate.
const (
	bisections = 6
	retreat    = 0.93 // the share of a rate that is tried when it did not hold for longer
	retreats   = 6
)

// highest looks for the highest rate that holds: short loads bisect, a longer
// one must confirm.
func (b *bencher) highest(ctx context.Context, candidates int) (search, error) {
	requests := b.world.requestsOf(candidates)
	bare, err := bareOf(b.bundle)
	if err != nil {
		return search{}, err
	}
	capacity := 1e6 / micros(cpuPerRequest([]evaluation{bare}, requests, 3)[0])
	s := search{Candidates: candidates, BareRate: capacity}
	step := max(time.Second/2, b.duration/20)
	low, high := capacity/20, 2*capacity // no two cores do more
	for range bisections {
		middle := (low + high) / 2
		if load(ctx, b.client, requests, middle, step, b.rng).holds() {
			low = middle
		} else {
			high = middle
		}
		if err := b.settle(ctx); err != nil {
			return s, err
		}
	}
	for range retreats {
		if o := load(ctx, b.client, requests, low, 3*step, b.rng); o.holds() {
			s.Best = o
			break
		}
		low *= retreat
		if err := b.settle(ctx); err != nil {
			return s, err
		}
	}
	return s, ctx.Err()
}

// settle waits until the server has done what an earlier load left behind.
func (b *bencher) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err := b.client.Status(ctx)
	return err
}

// bars are what was promised.
func (r results) bars() []bench.Bar {
	return []bench.Bar{
		{Name: "predictor_p50_ms", Value: r.Judged.P50, Relation: bench.AtMost, Bound: 0.5},
		{Name: "predictor_p99_ms", Value: r.Judged.P99, Relation: bench.AtMost, Bound: 2.5},
		{Name: "predictor_errors", Value: float64(r.Judged.Failed), Relation: bench.AtMost, Bound: 0},
		{Name: "predictor_cpu_over_bare", Value: r.Served / r.Bare, Relation: bench.AtMost, Bound: 1.6},
		{Name: "predictor_rows_over_leaves", Value: r.RowsPerCPU / r.LeavesRows, Relation: bench.AtLeast, Bound: 4},
	}
}
