// Command gateway judges what the HTTP front door costs: time to first token,
// throughput of streams, CPU and memory, beside a direct connection and beside a
// bare reverse proxy (net/http/httputil) that decides, reads and meters nothing.
//
// Engines, proxy and router have processes of their own; the clients run here, on
// the same cores. The engines answer at once and as told, so that all that is
// measured is the way to them. Nobody forecasts, and rows are dropped where they
// leave the router.
//
//	go run ./internal/bench/gateway --out docs/results
//	go run ./internal/bench/gateway --duration 2s    quick and rough
//	go run ./internal/bench/gateway --profile DIR    with CPU profiles of the router
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/bench/process"
	"github.com/spillway-llm/spillway/internal/bench/served"
)

func main() {
	var o options
	flag.StringVar(&o.out, "out", "", "folder for gateway.json")
	_ = flag.String("data", "", "unused: nothing here is measured by others")
	flag.Uint64Var(&o.seed, "seed", 1, "of the prompts")
	flag.DurationVar(&o.duration, "duration", 8*time.Second, "of each measurement of each way")
	flag.StringVar(&o.profile, "profile", "", "folder for CPU profiles of the router, one a measurement")
	role := flag.String("role", "", "be one of the processes that the benchmark starts itself")
	flag.Parse()
	bench.Main("gateway", func(ctx context.Context) error {
		if *role != "" {
			return process.Play(ctx, *role, roles, os.Stdin, os.Stdout)
		}
		return run(ctx, os.Stdout, o)
	})
}

type options struct {
	out      string
	seed     uint64
	duration time.Duration
	profile  string
}

// The world of the bars.
const (
	llm       = served.LLM
	endpoints = 4
	long      = 200 << 10 // bytes of a prompt that is judged
	short     = 1 << 10   // bytes of one beside it
	streams   = 150       // at once
	pace      = 40 * time.Millisecond
)

func run(ctx context.Context, w io.Writer, o options) error {
	if o.duration < time.Second {
		return fmt.Errorf("--duration: %v is too short, want at least 1s", o.duration)
	}
	s, err := raise(ctx)
	if err != nil {
		return err
	}
	defer s.end()
	r := results{}
	if err := r.measure(ctx, w, s, o); err != nil {
		return err
	}
	r.print(w)
	report := bench.Report{
		Name: "gateway", Command: "make bench-gateway", Origin: bench.Here(), Seeds: []uint64{o.seed},
		Sizes: map[string]int{"endpoints": endpoints, "streams at once": streams, "bytes of a long prompt": long, "bytes of a short prompt": short},
		Bars:  r.bars(), Data: r,
	}
	report.Print(w)
	if o.out != "" {
		if err := report.Save(o.out); err != nil {
			return err
		}
	}
	return report.Err()
}
