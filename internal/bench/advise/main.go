// Command advise judges what spillway advise says of synthetic traffic: whether the
// matched configuration that it names is the one that wins in simulation, and
// whether it recommends predicted where neither wins throughout.
//
//	go run ./internal/bench/advise --out docs/results
//
// Advice is given on seeds of its own (from 1001 on, as many as the verb takes), and
// judged on others, with other engines and other requests: none of the numbers that
// advice was made of is in what it is judged by. The engine model is the same.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"text/tabwriter"

	"github.com/spillway-llm/spillway/internal/advise"
	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/bench/trial"
	"github.com/spillway-llm/spillway/router/policy"
)

// options are the flags.
type options struct {
	out   string
	seed  uint64
	seeds int
}

// Of the seeds that advice is given on, the first, and how many there may be.
const (
	ownSeed  = 1001
	ownSeeds = 100
)

func main() {
	var o options
	flag.String("data", "", "not used: everything is simulated")
	flag.StringVar(&o.out, "out", "", "folder for advise.json")
	flag.Uint64Var(&o.seed, "seed", 1, "the first seed that advice is judged on; each draws engines and traffic")
	flag.IntVar(&o.seeds, "seeds", 8, "number of them")
	flag.Parse()
	bench.Main("advise", func(ctx context.Context) error { return run(ctx, os.Stdout, o) })
}

func run(ctx context.Context, out io.Writer, o options) error {
	switch last := o.seed + uint64(max(o.seeds, 1)) - 1; {
	case o.seeds < 2:
		return fmt.Errorf("--seeds: want at least 2, not %d", o.seeds)
	case last >= ownSeed && o.seed < ownSeed+ownSeeds:
		return fmt.Errorf("--seed: advice is given on seeds %d to %d, and may not be judged on them", ownSeed, ownSeed+ownSeeds-1)
	}
	cases, err := allCases()
	if err != nil {
		return err
	}
	var judged []uint64
	for i := range o.seeds {
		judged = append(judged, o.seed+uint64(i))
	}
	done := bench.Progress("worlds", len(cases))
	results := make([]result, len(cases))
	simulations := 0
	for i, c := range cases {
		r := &results[i]
		r.World, r.Load, r.Unit, r.single = c.name, c.load, c.unit, c.single
		advice, n, err := c.advise(ctx, own(advise.EnoughSeeds(c.plan(ownSeed))))
		if err != nil {
			return err
		}
		truth, m, err := c.advise(ctx, judged)
		if err != nil {
			return err
		}
		simulations += n + m
		r.compare(advice, truth)
		done()
	}
	report := bench.Report{
		Name: "advise", Command: "make bench-advise", Origin: bench.Here(), Seeds: judged,
		Sizes: map[string]int{"endpoints": endpoints, "worlds": len(cases), "simulations": simulations}, Data: results,
	}
	report.Bars = bars(results)
	if err := print(out, results); err != nil {
		return err
	}
	report.Print(out)
	if o.out != "" {
		if err := report.Save(o.out); err != nil {
			return err
		}
	}
	return report.Err()
}

func own(n int) []uint64 {
	var seeds []uint64
	for i := range n {
		seeds = append(seeds, ownSeed+uint64(i))
	}
	return seeds
}

// advise studies a case.
func (c *studied) advise(ctx context.Context, seeds []uint64) (*advise.Advice, int, error) {
	study := c.study(seeds)
	runs := make([]advise.Run, study.Runs())
	err := trial.Each(ctx, len(runs), func(ctx context.Context, i int) (err error) {
		runs[i], err = study.Run(ctx, i)
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("%s at %g %s: %w", c.name, c.load, c.unit, err)
	}
	advice, err := study.Advise(runs)
	if err != nil {
		return nil, 0, fmt.Errorf("%s at %g %s: %w", c.name, c.load, c.unit, err)
	}
	return advice, len(runs), nil
}

// bars are what is claimed. A world in which the two differ by 3 % or less, or not
// provably, has no winner, and either is right.
func bars(results []result) []bench.Bar {
	var named, right, several, predicted float64
	for i := range results {
		switch r := &results[i]; {
		case !r.single:
			several++
			if r.Recommended == policy.Predicted {
				predicted++
			}
		case r.won():
			named++
			if r.Matched == r.Winner {
				right++
			}
		}
	}
	return []bench.Bar{
		{Name: "advise_matched_right", Value: right / named, Relation: bench.AtLeast, Bound: 1},
		{Name: "advise_predicted_where_neither", Value: predicted / several, Relation: bench.AtLeast, Bound: 1},
	}
}

func print(out io.Writer, results []result) error {
	tab := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "world\tload\tby class\tby simulation\tmatched\trecommended\t| truth\tactive over token %\tpredicted over matched %\tthroughout\tright")
	for i := range results {
		r := &results[i]
		fmt.Fprintf(tab, "%s\t%.3g\t%s\t%s\t%s\t%s\t| %s\t%s\t%s\t%s\t%s\n", r.World, r.Load, r.ByClass, r.BySimulation, r.Matched, r.Recommended,
			r.Winner, percent(r.Versus), percent(r.Predicted), yes(r.Throughout), r.verdict())
	}
	return tab.Flush()
}

func percent(c advise.Change) string {
	if math.IsNaN(c.Low) {
		return fmt.Sprintf("%+.1f", 100*c.Mean)
	}
	return fmt.Sprintf("%+.1f [%+.1f, %+.1f]", 100*c.Mean, 100*c.Low, 100*c.High)
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}
