package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spillway-llm/spillway/internal/bench"
)

// scene is everything that runs.
type scene struct{ engines, proxy, router *server }

// raise starts the processes.
func raise(ctx context.Context) (s *scene, err error) {
	s = &scene{}
	defer func() {
		if err != nil {
			s.end()
		}
	}()
	if s.engines, err = start(ctx, "engines", nil); err != nil {
		return s, err
	}
	if s.proxy, err = start(ctx, "proxy", s.engines.ready.URLs); err != nil {
		return s, err
	}
	s.router, err = start(ctx, "router", s.engines.ready.URLs)
	return s, err
}

func (s *scene) end() {
	s.router.end()
	s.proxy.end()
	s.engines.end()
}

// The ways to the engines.
const (
	direct = iota
	proxied
	routed
	ways
)

func (s *scene) ways() [ways]way {
	return [ways]way{
		direct:  {"direct", s.engines.ready.URLs, nil},
		proxied: {"bare proxy", s.proxy.ready.URLs, s.proxy},
		routed:  {"router", s.router.ready.URLs, s.router},
	}
}

// times are times to the first token, in milliseconds.
type times struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
}

func timesOf(all []time.Duration) times {
	slices.Sort(all)
	at := func(q float64) float64 {
		if len(all) == 0 {
			return 0
		}
		return float64(all[min(int(q*float64(len(all))), len(all)-1)]) / float64(time.Millisecond)
	}
	return times{at(0.5), at(0.99)}
}

// row is what was measured of one way. CPU, allocations and memory are those of
// the process in between; of a direct connection they are 0.
type row struct {
	Way           string  `json:"way"`
	Requests      int     `json:"requests"`
	Failed        int     `json:"failed"`           // of them
	Missing       int     `json:"missing"`          // tokens that did not come
	Alone         times   `json:"alone"`            // one request at a time, long prompt
	Crowd         times   `json:"crowd"`            // streams at once, long prompts, paced answers
	EventsASecond float64 `json:"events_per_s"`     // streams at once, as fast as they go
	CPULong       float64 `json:"cpu_us_long"`      // of a request with a long prompt and an answer of one token
	CPUShort      float64 `json:"cpu_us_short"`     // the same with a short prompt
	CPUEvent      float64 `json:"cpu_us_event"`     // of a token of a paced stream
	AllocsLong    float64 `json:"allocs_long"`      // as CPULong
	AllocsEvent   float64 `json:"allocs_event"`     // as CPUEvent
	HeapEarly     uint64  `json:"heap_early_bytes"` // with streams open that have brought few tokens
	HeapLate      uint64  `json:"heap_late_bytes"`  // the same streams, 8 times as many tokens later
}

// results is everything that was measured.
type results struct {
	Rows       [ways]row `json:"rows"`
	Throughput []float64 `json:"throughput_over_bare_proxy"` // events/s of the router over those of the proxy beside it, a value a turn
}

// blocks is into how many turns of each way a measurement is cut, so that what
// else the machine does meets all ways alike.
const blocks = 8

// Tokens of an answer.
const (
	crowdTokens = 50
	floodTokens = 500
)

// measure takes all measurements.
func (r *results) measure(ctx context.Context, w io.Writer, s *scene, o options) error {
	c := newClient(o.seed)
	all := s.ways()
	for i := range all {
		r.Rows[i].Way = all[i].name
		if _, err := c.run(ctx, all[i], load{Prompt: long, Tokens: 3, Concurrent: 16}, time.Second); err != nil {
			return err
		}
	}
	var got [ways]outcome
	for _, m := range []struct {
		name string
		load load
		keep func(into *row, got *outcome)
	}{
		{"alone", load{Prompt: long, Tokens: 1, Concurrent: 1}, func(into *row, got *outcome) { into.Alone = timesOf(got.TTFT) }},
		{"long", load{Prompt: long, Tokens: 1, Concurrent: 16}, func(into *row, got *outcome) {
			into.CPULong, into.AllocsLong = each(got.CPU, float64(got.Requests)), float64(got.Mallocs)/float64(got.Requests)
		}},
		{"short", load{Prompt: short, Tokens: 1, Concurrent: 16}, func(into *row, got *outcome) { into.CPUShort = each(got.CPU, float64(got.Requests)) }},
		{"crowd", load{Prompt: long, Tokens: crowdTokens, Pace: pace, Concurrent: streams, Spread: crowdTokens * pace}, func(into *row, got *outcome) { into.Crowd = timesOf(got.TTFT) }},
		{"flood", load{Prompt: short, Tokens: floodTokens, Concurrent: streams}, func(into *row, got *outcome) { into.EventsASecond = float64(got.Events) / got.Elapsed.Seconds() }},
	} {
		fmt.Fprintf(w, "%s: prompts of %d bytes, answers of %d tokens, %d at once\n", m.name, m.load.Prompt, m.load.Tokens, m.load.Concurrent)
		got = [ways]outcome{}
		stop := s.profile(ctx, o, m.name)
		r.Throughput = r.Throughput[:0] // of the last measurement, which is about throughput
		for block := range blocks {
			var rate [ways]float64
			for i := range ways {
				if block%2 == 1 {
					i = ways - 1 - i
				}
				part, err := c.run(ctx, all[i], m.load, o.duration/blocks)
				if err != nil {
					return err
				}
				got[i].add(part)
				rate[i] = float64(part.Events) / part.Elapsed.Seconds()
			}
			r.Throughput = append(r.Throughput, rate[routed]/rate[proxied])
		}
		if err := stop(); err != nil {
			return err
		}
		for i := range ways {
			m.keep(&r.Rows[i], &got[i])
			r.Rows[i].count(got[i])
		}
	}
	for i := range ways {
		if err := held(ctx, w, c, all[i], &r.Rows[i], o.duration); err != nil {
			return err
		}
	}
	return nil
}

// count adds what was asked and what went wrong.
func (r *row) count(o outcome) {
	r.Requests += o.Requests
	r.Failed += o.Failed
	r.Missing += o.Missing
}

// median of what is not empty.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// held opens streams, one round of them, and looks at what they cost while all
// are open: memory when each has brought few tokens and when each has brought
// many, and CPU in between.
func held(ctx context.Context, w io.Writer, c *client, by way, into *row, lasting time.Duration) error {
	tokens := int(lasting / pace)
	fmt.Fprintf(w, "held: prompts of %d bytes, answers of %d tokens, %d at once, %s\n", long, tokens, streams, by.name)
	var got outcome
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() (err error) {
		got, err = c.run(ctx, by, load{Prompt: long, Tokens: tokens, Pace: pace, Concurrent: streams, Spread: pace}, 0)
		return err
	})
	work.Go(func() error {
		wait(ctx, lasting/10)
		early, err := by.process.used(collectLine)
		if err != nil {
			return err
		}
		if early, err = by.process.used(collectLine); err != nil { // what only the first one ends is not counted
			return err
		}
		began := time.Now()
		wait(ctx, lasting*8/10)
		late, err := by.process.used(collectLine)
		events := streams * float64(time.Since(began)) / float64(pace)
		into.HeapEarly, into.HeapLate = early.Heap, late.Heap
		into.CPUEvent = each(late.CPU-early.CPU, events)
		into.AllocsEvent = float64(late.Mallocs-early.Mallocs) / events
		return err
	})
	if err := work.Wait(); err != nil {
		return err
	}
	into.count(got)
	return nil
}

// each is a time for each of n, in microseconds.
func each(total time.Duration, n float64) float64 {
	return float64(total) / float64(time.Microsecond) / n
}

// profile takes a CPU profile of the router during a measurement, where that is
// wanted. The function it returns waits for the end of it.
func (s *scene) profile(ctx context.Context, o options, name string) func() error {
	if o.profile == "" {
		return func() error { return nil }
	}
	var work errgroup.Group
	work.Go(func() error {
		seconds := int((ways * o.duration).Seconds())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", s.router.ready.Admin, seconds), nil)
		if err != nil {
			return err
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if err != nil {
			return err
		}
		if a.StatusCode != http.StatusOK {
			return fmt.Errorf("take a profile: %s", a.Status)
		}
		return bench.Write(filepath.Join(o.profile, name+".pprof"), text)
	})
	return work.Wait
}
