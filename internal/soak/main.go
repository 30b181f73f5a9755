// Command soak runs a router for long, with everything that can go wrong around
// it, and judges what is left: nothing in flight, every row stored, memory and
// goroutines flat.
//
// The router, simulated engines and clients are in this process, the real code of
// each; Postgres has its own, behind a wire that can be cut. Time goes in rounds.
// In each, clients stream, leave, and send nonsense while endpoints slow down,
// fail, hang, reset, restart, leave the file and come back, forecasts come late or
// not at all, and in every second round the store is away. A third of the clients
// are behind a proxy that asks the endpoint picker. At the end of a round all is
// made well, clients stop, and every number is looked at.
//
//	go run ./internal/soak --out docs/results
//	go run ./internal/soak --time 1m
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spillway-llm/spillway/internal/bench"
)

func main() {
	o := defaults()
	flag.StringVar(&o.out, "out", "", "folder for soak.json")
	_ = flag.String("data", "", "unused: nothing here is measured by others")
	flag.Uint64Var(&o.seed, "seed", 1, "of the traffic and the trouble")
	flag.DurationVar(&o.lasting, "time", o.lasting, "of all rounds together")
	flag.Parse()
	bench.Main("soak", func(ctx context.Context) error { return judge(ctx, os.Stdout, o) })
}

type options struct {
	out       string
	seed      uint64
	lasting   time.Duration
	round     time.Duration // of trouble, before all is made well
	endpoints int
	clients   int
}

func defaults() options {
	return options{seed: 1, lasting: 30 * time.Minute, round: 8 * time.Second, endpoints: 6, clients: 24}
}

// leastRounds is how many rounds a trend needs.
const leastRounds = 6

func judge(ctx context.Context, w io.Writer, o options) error {
	if o.lasting < leastRounds*o.round {
		return fmt.Errorf("--time: %v is too short, want at least %v", o.lasting, leastRounds*o.round)
	}
	t, err := soak(ctx, w, o)
	if err != nil {
		return err
	}
	t.print(w)
	report := bench.Report{
		Name: "soak", Command: "make soak", Origin: bench.Here(), Seeds: []uint64{o.seed},
		Sizes: map[string]int{"rounds": len(t.Rounds), "seconds": int(t.Seconds), "endpoints": o.endpoints, "clients": o.clients},
		Bars:  append(t.counts(), t.trends()...), Data: t.shown(),
	}
	report.Print(w)
	if o.out != "" {
		if err := report.Save(o.out); err != nil {
			return err
		}
	}
	return report.Err()
}
