package loadgen

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/spillway-llm/spillway/internal/trace"
)

// openLoop sends each item when it is due. Answers are not waited for until
// the end.
func (r *run) openLoop(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, r.MaxInFlight) // full: the request is not sent
	timer := time.NewTimer(time.Hour)           // set anew before each wait
	defer timer.Stop()
	index := 0
	for item := range r.Items {
		offset := time.Duration(float64(item.At) / r.Speedup)
		if r.Limit > 0 && index >= r.Limit || r.Duration > 0 && offset >= r.Duration {
			return
		}
		due := r.start.Add(offset)
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return
		}
		job := job{item: item, index: index, due: due}
		index++
		select {
		case slots <- struct{}{}:
			wg.Go(func() {
				r.record(r.send(ctx, job))
				<-slots
			})
		default:
			r.record(job.record(Overrun))
		}
	}
}

// closedLoop keeps Concurrency clients busy.
func (r *run) closedLoop(ctx context.Context) {
	next, stop := iter.Pull(r.Items)
	defer stop()
	var mu sync.Mutex
	index := 0
	take := func() (job, bool) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil || r.Limit > 0 && index >= r.Limit || r.Duration > 0 && time.Since(r.start) >= r.Duration {
			return job{}, false
		}
		item, ok := next()
		index++
		return job{item: item, index: index - 1}, ok
	}
	var wg sync.WaitGroup
	for range r.Concurrency {
		wg.Go(func() {
			for job, ok := take(); ok; job, ok = take() {
				r.record(r.send(ctx, job))
			}
		})
	}
	wg.Wait()
}

// job is one request to be sent.
type job struct {
	item  trace.Item
	index int
	due   time.Time // when it was meant to leave; zero in a closed loop
}
