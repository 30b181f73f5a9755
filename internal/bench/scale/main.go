// Command scale judges a fleet of 200 endpoints, twice: in simulation at 1,000
// requests a second, where predicted routing must be no worse than the better
// matched configuration; and through a real router with as many fake endpoints and
// as many requests as this machine carries, where a request must not cost much more
// than it does with ten.
//
//	go run ./internal/bench/scale --out docs/results
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
)

// options are the flags.
type options struct {
	out      string
	seed     uint64
	seeds    int
	duration time.Duration
	only     string
}

func main() {
	var o options
	flag.String("data", "", "not used: nothing here is measured by others")
	flag.StringVar(&o.out, "out", "", "folder for scale.json")
	flag.Uint64Var(&o.seed, "seed", 1, "the first seed; each draws engines and traffic")
	flag.IntVar(&o.seeds, "seeds", 5, "number of seeds of the simulation")
	flag.DurationVar(&o.duration, "duration", 5*time.Second, "of each measurement of the real router")
	flag.StringVar(&o.only, "only", "", `"simulation" or "router": only this half, and nothing is written`)
	role := flag.String("role", "", "be one of the processes that the benchmark starts itself")
	flag.Parse()
	bench.Main("scale", func(ctx context.Context) error {
		if *role != "" {
			return process.Play(ctx, *role, roles, os.Stdin, os.Stdout)
		}
		return run(ctx, os.Stdout, o)
	})
}

func run(ctx context.Context, w io.Writer, o options) error {
	switch {
	case o.seeds < 2:
		return fmt.Errorf("--seeds: want at least 2, not %d", o.seeds)
	case o.duration < time.Second:
		return fmt.Errorf("--duration: %v is too short, want at least 1s", o.duration)
	case o.only != "" && o.only != "simulation" && o.only != "router":
		return fmt.Errorf(`--only: want "simulation" or "router", not %q`, o.only)
	}
	report := bench.Report{Name: "scale", Command: "make bench-scale", Origin: bench.Here(), Sizes: map[string]int{}}
	for i := range o.seeds {
		report.Seeds = append(report.Seeds, o.seed+uint64(i))
	}
	var out struct {
		Simulation *quality `json:"simulation,omitempty"`
		Router     *costs   `json:"router,omitempty"`
	}
	var err error
	if o.only != "router" {
		if out.Simulation, err = simulate(ctx, &report); err != nil {
			return err
		}
		if err := out.Simulation.print(w); err != nil {
			return err
		}
		report.Bars = append(report.Bars, out.Simulation.bars()...)
	}
	if o.only != "simulation" {
		if out.Router, err = measure(ctx, o, &report); err != nil {
			return err
		}
		if err := out.Router.print(w); err != nil {
			return err
		}
		report.Bars = append(report.Bars, out.Router.bars()...)
	}
	report.Data = out
	report.Print(w)
	if o.out != "" && o.only == "" {
		if err := report.Save(o.out); err != nil {
			return err
		}
	}
	return report.Err()
}
