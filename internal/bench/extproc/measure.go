package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/bench/process"
)

// stage is every process of the benchmark.
type stage struct {
	fleet, predictor, router, blind, echo *process.Process

	at, blindAt routerReady // the blind router has no predictor
	echoAt      string
}

// raise starts the processes and waits until forecasts decide.
func raise(ctx context.Context, folder string, seed uint64) (s *stage, err error) {
	s = &stage{}
	defer func() {
		if err != nil {
			s.end()
		}
	}()
	data, err := fit(ctx, seed)
	if err != nil {
		return s, err
	}
	file, address := filepath.Join(folder, "bundle"), "unix://"+filepath.Join(folder, "p.sock")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return s, err
	}
	var there fleetReady
	if s.fleet, err = process.Start(ctx, "fleet", endpoints, &there); err != nil {
		return s, err
	}
	var up bool
	if s.predictor, err = process.Start(ctx, "predictor", predictorSetting{address, file}, &up); err != nil {
		return s, err
	}
	if s.router, err = process.Start(ctx, "router", routerSetting{there.URLs, address}, &s.at); err != nil {
		return s, err
	}
	if s.blind, err = process.Start(ctx, "router", routerSetting{there.URLs, "unix://" + filepath.Join(folder, "nobody.sock")}, &s.blindAt); err != nil {
		return s, err
	}
	if s.echo, err = process.Start(ctx, "echo", true, &s.echoAt); err != nil {
		return s, err
	}
	if err := until(ctx, s.at.Admin, live); err != nil {
		return s, fmt.Errorf("forecasts never came to decide: %w", err)
	}
	return s, until(ctx, s.blindAt.Admin, func(status string) bool { return strings.Count(status, `"healthy": true`) == endpoints })
}

func live(status string) bool { return strings.Contains(status, `"state": "live"`) }

// until waits until a router's status is as it should be.
func until(ctx context.Context, admin string, good func(string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		r, err := http.Get("http://" + admin + "/status.json")
		if err != nil {
			return err
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return err
		}
		if good(string(body)) {
			return nil
		}
		if wait(ctx, 100*time.Millisecond); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (s *stage) end() {
	for _, p := range []*process.Process{s.router, s.blind, s.echo, s.predictor, s.fleet} {
		p.End()
	}
}

// results is everything that was measured.
type results struct {
	Idle     float64   `json:"idle_cpu_ms_per_s"` // of the router, with 100 endpoints to scrape
	Requests []request `json:"requests"`
	Streams  []rung    `json:"streams"`
	Judged   int       `json:"streams_judged"` // the most that were carried
}

// request is what requests of one kind cost.
type request struct {
	Tokens    int     `json:"prompt_tokens"`
	Chunks    int     `json:"response_chunks"` // 0: aborted at the decision
	Predictor bool    `json:"predictor"`
	Count     int     `json:"requests"`
	Rate      float64 `json:"requests_per_s"`
	CPU       float64 `json:"router_cpu_us"`
	User      float64 `json:"router_user_cpu_us"`
	Predict   float64 `json:"predictor_cpu_us"`
	Mallocs   float64 `json:"allocations"`
	P50       float64 `json:"decision_p50_ms"` // as the proxy sees it
	P99       float64 `json:"decision_p99_ms"`
	Inside    float64 `json:"decision_p99_inside_ms"` // from the body read to the choice; a bucket's upper bound
}

// judged reports whether bars are about requests of this kind.
func (k *request) judged() bool { return k.Predictor && k.Chunks == shortResponse }

func (r *results) measure(ctx context.Context, w io.Writer, s *stage, o options) error {
	before, err := usedBy(s.router)
	if err != nil {
		return err
	}
	began := time.Now()
	wait(ctx, o.duration/3)
	after, err := usedBy(s.router)
	if err != nil {
		return err
	}
	r.Idle = float64(after.cpu()-before.cpu()) / float64(time.Millisecond) / time.Since(began).Seconds()
	for _, tokens := range []int{1000, 8000} {
		t := newTraffic(rand.New(rand.NewPCG(o.seed, uint64(tokens))), tokens)
		for _, kind := range []request{
			{Tokens: tokens, Chunks: shortResponse, Predictor: true},
			{Tokens: tokens, Chunks: longResponse, Predictor: true},
			{Tokens: tokens, Predictor: true},
			{Tokens: tokens, Chunks: shortResponse},
		} {
			fmt.Fprintf(w, "prompts of %d tokens, %d chunks, predictor: %v\n", kind.Tokens, kind.Chunks, kind.Predictor)
			if err := kind.measure(ctx, s, t, o); err != nil {
				return err
			}
			r.Requests = append(r.Requests, kind)
		}
	}
	return r.climb(ctx, w, s, o)
}

// measure plays requests of a kind for some time, after a while of the same.
func (k *request) measure(ctx context.Context, s *stage, t *traffic, o options) error {
	router, at := s.router, s.at.Picker
	if !k.Predictor {
		router, at = s.blind, s.blindAt.Picker
	}
	var conns []*grpc.ClientConn
	for range 2 {
		conn, err := dial(at)
		if err != nil {
			return err
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	var answer [][]byte
	if k.Chunks > 0 {
		answer = response(k.Chunks)
	}
	warm := o
	warm.duration = o.duration / 4
	if _, err := t.play(ctx, conns, warm, answer); err != nil {
		return err
	}
	before, err := usedBy(router)
	if err != nil {
		return err
	}
	asked, err := usedBy(s.predictor)
	if err != nil {
		return err
	}
	p, err := t.play(ctx, conns, o, answer)
	if err != nil {
		return err
	}
	after, err := usedBy(router)
	if err != nil {
		return err
	}
	told, err := usedBy(s.predictor)
	if err != nil {
		return err
	}
	if k.Predictor {
		if err := until(ctx, s.at.Admin, live); err != nil {
			return fmt.Errorf("forecasts no longer decide: %w", err)
		}
	}
	if n := int(after.Decisions - before.Decisions); n < p.requests {
		return fmt.Errorf("%d requests, but %d decisions", p.requests, n)
	}
	k.Count, k.Rate = p.requests, float64(p.requests)/p.elapsed.Seconds()
	k.CPU, k.Predict = after.cpuSince(before, p.requests), told.cpuSince(asked, p.requests)
	k.User = float64(after.User-before.User) / float64(time.Microsecond) / float64(p.requests)
	k.Mallocs = float64(after.Mallocs-before.Mallocs) / float64(p.requests)
	k.P50, k.P99, k.Inside = p.decided.at(0.5), p.decided.at(0.99), 1000*after.Decide.quantile(before.Decide, 0.99)
	return nil
}

// climb raises the number of streams until the machine no longer carries them.
func (r *results) climb(ctx context.Context, w io.Writer, s *stage, o options) error {
	t := newTraffic(rand.New(rand.NewPCG(o.seed, 7)), 250)
	answer := response(longResponse)
	chunk := answer[1]
	decide := func(x *exchange, rng *rand.Rand) error {
		if _, err := x.ask(t.request(rng)); err != nil {
			return err
		}
		if err := x.send(answer[0]); err != nil {
			return err
		}
		return x.receive(partResponseHeaders)
	}
	for n := leastStreams; ; n = min(2*n, o.streams) {
		fmt.Fprintf(w, "%d streams of %d chunks/s\n", n, chunksPerSecond)
		now := rung{Streams: n}
		for tries := 0; tries < 2 && !now.holds(); tries++ { // others may have been busy
			var err error
			if now, err = s.carry(ctx, n, o.duration/4, chunk, decide); err != nil {
				return err
			}
		}
		r.Streams = append(r.Streams, now)
		if now.holds() {
			r.Judged = len(r.Streams) - 1
		}
		if !now.holds() || n == o.streams {
			return nil
		}
	}
}

// carry measures a number of streams: echo and router take turns, so that none
// has the quieter machine.
func (s *stage) carry(ctx context.Context, n int, duration time.Duration, chunk []byte, decide func(*exchange, *rand.Rand) error) (rung, error) {
	now := rung{Streams: n}
	for range 2 {
		if err := now.Echo.add(ctx, s.echo, s.echoAt, n, duration, chunk, func(*exchange, *rand.Rand) error { return nil }); err != nil {
			return now, err
		}
		if err := now.Router.add(ctx, s.router, s.at.Picker, n, duration, chunk, decide); err != nil {
			return now, err
		}
	}
	return now, nil
}

// bars are what was promised.
func (r results) bars() []bench.Bar {
	var bars []bench.Bar
	worst := 0.0
	for _, k := range r.Requests {
		if !k.judged() {
			continue
		}
		worst = max(worst, k.P99)
		bound := map[int]float64{1000: 250, 8000: 600}[k.Tokens]
		bars = append(bars, bench.Bar{Name: fmt.Sprintf("router_cpu_us_per_request_%dk", k.Tokens/1000), Value: k.CPU, Relation: bench.AtMost, Bound: bound})
	}
	return append(bars,
		bench.Bar{Name: "decision_p99_ms", Value: worst, Relation: bench.AtMost, Bound: 5},
		bench.Bar{Name: "cpu_us_per_chunk_beyond_echo", Value: r.Streams[r.Judged].beyond(), Relation: bench.AtMost, Bound: 4},
	)
}

func (r results) print(w io.Writer) {
	fmt.Fprintf(w, "\nthe router alone, scraping %d pages of %d bytes a second: %.1f ms of CPU a second\n\n", endpoints, pageBytes, r.Idle)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "prompt tokens\tresponse\tpredictor\trequests/s\trouter CPU us\tof it user\tpredictor CPU us\tallocations\tdecision p50 ms\tp99 ms\tinside p99 <= ms\t")
	for _, k := range r.Requests {
		played, predictor := "aborted", "none"
		if k.Chunks > 0 {
			played = fmt.Sprintf("%d chunks", k.Chunks)
		}
		if k.Predictor {
			predictor = "asked"
		}
		fmt.Fprintf(tw, "%d\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t%.2f\t\n",
			k.Tokens, played, predictor, k.Rate, k.CPU, k.User, k.Predict, k.Mallocs, k.P50, k.P99, k.Inside)
	}
	_ = tw.Flush()
	fmt.Fprintln(w)
	tw = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "streams of %d chunks/s\trouter carried chunks/s\tus of CPU a chunk\techo carried chunks/s\tus of CPU a chunk\tbeyond the echo us\t\n", chunksPerSecond)
	for _, s := range r.Streams {
		fmt.Fprintf(tw, "%d\t%.0f\t%.1f\t%.0f\t%.1f\t%.1f\t\n", s.Streams, s.Router.Rate, s.Router.CPU, s.Echo.Rate, s.Echo.CPU, s.beyond())
	}
	_ = tw.Flush()
	fmt.Fprintln(w)
}
