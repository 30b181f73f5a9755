package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/spillway-llm/spillway/internal/bench"
)

// options are the flags.
type options struct {
	data, out      string
	seed           uint64
	seeds, outages int
	knee           bool
}

func main() {
	var o options
	flag.StringVar(&o.data, "data", "", "not used: everything is simulated")
	flag.StringVar(&o.out, "out", "", "folder for routers.json")
	flag.Uint64Var(&o.seed, "seed", 1, "the first seed")
	flag.IntVar(&o.seeds, "seeds", 5, "number of seeds of the comparison with one router")
	flag.IntVar(&o.outages, "outages", 60, "number of seeds of the outages, each of which is short")
	flag.BoolVar(&o.knee, "knee", false, "show instead what one router makes of several loads, on the development seeds")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "routers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, o options) error {
	if o.knee {
		return printKnee(ctx, out)
	}
	if o.seeds < 2 || o.outages < 1 {
		return fmt.Errorf("--seeds and --outages: want at least 2 and 1, not %d and %d", o.seeds, o.outages)
	}
	done := bench.Progress("simulations", len(loads)*len(arms)*o.seeds+len(failures)*o.outages)
	var rows []row
	for _, load := range loads {
		all, err := compare(ctx, load, from(o.seed, o.seeds), done)
		if err != nil {
			return err
		}
		rows = append(rows, all...)
	}
	outages, err := fail(ctx, from(o.seed, o.outages), done)
	if err != nil {
		return err
	}
	requests := 0
	for _, r := range rows {
		requests += r.Requests
	}
	for _, r := range outages {
		requests += r.Requests
	}
	report := bench.Report{
		Name: "routers", Command: "make bench-routers", Origin: bench.Here(), Seeds: from(o.seed, max(o.seeds, o.outages)),
		Sizes: map[string]int{"engines": engines, "seeds": o.seeds, "outage_seeds": o.outages, "requests": requests},
		Bars:  bars(rows, outages),
		Data: struct {
			Routers []row    `json:"routers"`
			Outages []outage `json:"outages"`
		}{rows, outages},
	}
	printRows(out, rows)
	printOutages(out, outages)
	report.Print(out)
	if o.out != "" {
		if err := report.Save(o.out); err != nil {
			return err
		}
	}
	return report.Err()
}

// from lists seeds.
func from(first uint64, n int) (seeds []uint64) {
	for i := range n {
		seeds = append(seeds, first+uint64(i))
	}
	return seeds
}

// bars are the promises: sharing costs at most 10 % of TTFT p90, and a router's
// death at most 10 % from 30 s after it on.
func bars(rows []row, outages []outage) (all []bench.Bar) {
	for _, r := range rows {
		if r.Share && r.Load == judgedLoad {
			all = append(all, bench.Bar{Name: fmt.Sprintf("ttft_p90_of_%d_sharing_over_one", r.Routers), Value: r.Ratio.Mean, Relation: bench.AtMost, Bound: 1.1})
		}
	}
	for _, o := range outages {
		if o.Share && o.name != undisturbed {
			all = append(all, bench.Bar{Name: "ttft_p90_after_" + o.name, Value: o.After, Relation: bench.AtMost, Bound: 1.1})
		}
	}
	return all
}
