// Command extproc judges the endpoint picker: what a request costs the router
// when a proxy asks it where to go, how long a decision takes, and what a
// streamed chunk costs beside a bare gRPC echo.
//
// Endpoints with their metrics pages, predictor, router and echo have processes
// of their own; the proxy is played here, on the same cores. Recording is left
// out: rows are dropped where they leave the router.
//
//	go run ./internal/bench/extproc --out docs/results
//	go run ./internal/bench/extproc --duration 2s    quick and rough
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"time"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/bench/process"
)

func main() {
	var o options
	flag.StringVar(&o.out, "out", "", "folder for extproc.json")
	_ = flag.String("data", "", "unused: nothing here is measured by others")
	flag.Uint64Var(&o.seed, "seed", 1, "of the bundle and the prompts")
	flag.DurationVar(&o.duration, "duration", 10*time.Second, "of each measurement")
	flag.IntVar(&o.streams, "streams", 12800, "the most concurrent streams that are tried")
	role := flag.String("role", "", "be one of the processes that the benchmark starts itself")
	flag.Parse()
	if *role == "" {
		debug.SetGCPercent(1000) // the driver's own collections are nobody's latency
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *role != "" {
		err = process.Play(ctx, *role, roles, os.Stdin, os.Stdout)
	} else {
		err = run(ctx, os.Stdout, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "extproc:", err)
		os.Exit(1)
	}
}

type options struct {
	out      string
	seed     uint64
	duration time.Duration
	streams  int
}

// The world of the bars.
const (
	llm         = "bench"
	endpoints   = 100
	pageBytes   = 22 << 10
	concurrency = 16
	shared      = 0.9 // of a prompt
	candidates  = 16  // that are forecast
)

// Chunks of the responses that are played, three of which end a response. The
// short one is judged: what each further chunk costs is a bar of its own.
const (
	shortResponse = 8
	longResponse  = 28
)

func run(ctx context.Context, w io.Writer, o options) error {
	if o.duration < time.Second {
		return fmt.Errorf("--duration: %v is too short, want at least 1s", o.duration)
	}
	if o.streams < leastStreams {
		return fmt.Errorf("--streams: %d is too few, want at least %d", o.streams, leastStreams)
	}
	folder, err := os.MkdirTemp("", "spillway-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	s, err := raise(ctx, folder, o.seed)
	if err != nil {
		return err
	}
	defer s.end()
	var r results
	if err := r.measure(ctx, w, s, o); err != nil {
		return err
	}
	r.print(w)
	report := bench.Report{
		Name: "extproc", Command: "make bench-extproc", Origin: bench.Here(), Seeds: []uint64{o.seed},
		Sizes: map[string]int{
			"endpoints": endpoints, "bytes of a metrics page": pageBytes, "concurrency": concurrency,
			"candidates forecast": candidates, "chunks of a response": shortResponse,
		},
		Bars: r.bars(), Data: r,
	}
	report.Print(w)
	if o.out != "" {
		if err := report.Save(o.out); err != nil {
			return err
		}
	}
	return report.Err()
}
