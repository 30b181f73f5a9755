// Command predictor judges the predictor: what a forecast costs over a Unix
// socket beside the bare evaluation, and how late it comes.
//
// The server has a process of its own; the client is open-loop, on the same
// cores, and counts latency from the intended time of sending. The bundle has
// 4 heads of 200 trees x 31 leaves, fitted to drawn rows.
//
//	go run ./internal/bench/predictor --out docs/results
//	go run ./internal/bench/predictor --duration 5s    quick and rough
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/predictor"
)

func main() {
	var o options
	flag.StringVar(&o.out, "out", "", "folder for predictor.json")
	flag.Uint64Var(&o.seed, "seed", 1, "of the bundle, the vectors and the times of sending")
	flag.DurationVar(&o.duration, "duration", time.Minute, "of the load that is judged; other loads are shorter in proportion")
	addr := flag.String("serve", "", "be the server's process at this address; the benchmark starts it itself")
	file := flag.String("bundle", "", "of the server's process")
	flag.Parse()
	bench.Main("predictor", func(ctx context.Context) error {
		if *addr != "" {
			return serve(ctx, *addr, *file, os.Stdin, os.Stdout)
		}
		return run(ctx, os.Stdout, o)
	})
}

type options struct {
	out      string
	seed     uint64
	duration time.Duration
}

// The load that is judged.
const (
	judgedRows = 16   // candidates of a request
	judgedRate = 1000 // requests a second
)

func run(ctx context.Context, w io.Writer, o options) error {
	if o.duration < time.Second {
		return fmt.Errorf("--duration: %v is too short, want at least 1s", o.duration)
	}
	folder, err := os.MkdirTemp("", "spillway-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	world := newWorld(o.seed)
	fmt.Fprintf(w, "fitting 4 heads of %d trees x %d leaves\n", trees, leavesEach)
	data, err := world.bundle(ctx)
	if err != nil {
		return err
	}
	p, err := start(ctx, folder, data)
	if err != nil {
		return err
	}
	defer func() { _ = p.stop() }()
	client, err := predictor.Dial(p.addr)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ready(ctx); err != nil {
		return err
	}
	b := bencher{options: o, world: world, rng: rand.New(rand.NewPCG(o.seed, 1)), process: p, client: client, bundle: data}
	results, err := b.measure(ctx, w)
	if err != nil {
		return err
	}
	results.print(w)
	report := bench.Report{
		Name: "predictor", Command: "make bench-predictor", Origin: bench.Here(), Seeds: []uint64{o.seed},
		Sizes: map[string]int{
			"heads": 4, "trees of a head": trees, "leaves of a tree": leavesEach, "bytes of the bundle": len(data),
			"requests judged": results.Judged.Requests,
		},
		Bars: results.bars(), Data: results,
	}
	report.Print(w)
	if o.out != "" {
		if err := report.Save(o.out); err != nil {
			return err
		}
	}
	return report.Err()
}

// requestsOf draws requests of so many candidates, enough that no cache but
// the forests' own knows them.
func (w world) requestsOf(candidates int) [][]feature.Vector {
	requests := make([][]feature.Vector, max(16, 4096/candidates))
	for i := range requests {
		requests[i] = w.request(candidates)
	}
	return requests
}
