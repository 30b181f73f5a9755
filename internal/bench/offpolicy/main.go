// Offpolicy judges the estimators of what another policy would have done: how
// often their intervals cover a truth that is known, and what a great log costs.
//
//   - coverage: 1,000 logs of a bandit without interference whose truth stands in
//     closed form, each estimator's 95 % interval of the effect, and the
//     confidence sequence, at every moment of a log;
//   - speed: a log of 500,000 decisions among 20 simulated engines, written as
//     Parquet, judged by a process of its own, and one of a tenth of it.
//
// What the estimates are worth where one request interferes with others is
// another question, and not asked here.
//
//	go run ./internal/bench/offpolicy --out docs/results
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/bench/process"
)

// question is what is asked of this program.
type question struct {
	out, data string
	seed      uint64
	repeats   int
	decisions int
}

func main() {
	var q question
	role := flag.String("role", "", "one of this program's own processes")
	flag.StringVar(&q.out, "out", "", "folder for offpolicy.json")
	flag.StringVar(&q.data, "data", "", "folder with large.parquet and small.parquet to judge instead of simulated ones; they are made there where they are missing (default: a temporary one)")
	flag.Uint64Var(&q.seed, "seed", 1, "of bandits and of the simulation: the same seed makes the same logs")
	flag.IntVar(&q.repeats, "repeats", 1000, "logs of each bandit")
	flag.IntVar(&q.decisions, "decisions", 500_000, "decisions of the large log; the small one has a tenth")
	flag.Parse()
	var err error
	if *role != "" {
		err = process.Play(context.Background(), *role, map[string]process.Role{"judge": judge}, os.Stdin, os.Stdout)
	} else {
		err = run(context.Background(), os.Stdout, q)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "offpolicy:", err)
		os.Exit(1)
	}
}

// The bounds.
const (
	coverageLeast = 0.93
	coverageMost  = 0.97
	sequenceLeast = 0.95
	perMinute     = 200_000 // decisions a minute of CPU
	mostMemory    = 1024    // MiB
	mostGrowth    = 1.1     // of memory, from the small log to the large one
)

func run(ctx context.Context, w io.Writer, q question) (err error) {
	if q.repeats < 1 || q.decisions < 100 {
		return fmt.Errorf("--repeats %d, --decisions %d: want at least 1 and 100", q.repeats, q.decisions)
	}
	worlds := cover(q.seed, q.repeats)
	printCoverage(w, worlds)

	if q.data == "" {
		if q.data, err = os.MkdirTemp("", "offpolicy"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(q.data)) }()
	}
	logs, err := logsIn(ctx, &q)
	if err != nil {
		return err
	}
	var costs []cost
	for _, log := range logs {
		for _, policy := range judged {
			c, err := costOf(ctx, setting{log, policy})
			if err != nil {
				return err
			}
			costs = append(costs, c)
		}
	}
	printCosts(w, costs)
	report := bench.Report{
		Name: "offpolicy", Command: "make bench-offpolicy", Origin: bench.Here(), Seeds: []uint64{q.seed},
		Sizes: map[string]int{"repeats": q.repeats, "decisions_large": costs[0].Decisions, "decisions_small": costs[len(judged)].Decisions, "candidates": endpoints},
		Bars:  bars(worlds, costs), Data: map[string]any{"coverage": worlds, "costs": costs},
	}
	report.Print(w)
	if q.out != "" {
		if err := report.Save(q.out); err != nil {
			return err
		}
	}
	return report.Err()
}

// logsIn are the large and the small log, made where they are missing.
func logsIn(ctx context.Context, q *question) ([]string, error) {
	logs := []string{filepath.Join(q.data, "large.parquet"), filepath.Join(q.data, "small.parquet")}
	for _, log := range logs {
		_, err := os.Stat(log)
		if errors.Is(err, os.ErrNotExist) {
			return logs, simulate(ctx, q.seed, q.decisions, logs[0], logs[1])
		}
		if err != nil {
			return nil, err
		}
	}
	return logs, nil
}

func bars(worlds []covered, costs []cost) (out []bench.Bar) {
	for _, world := range worlds {
		if !world.Judged {
			continue
		}
		for _, e := range world.Estimators {
			out = append(out, bench.Within("coverage_"+world.Name+"_"+identifier(e.Name), e.Coverage, coverageLeast, coverageMost)...)
		}
		out = append(out, bench.Bar{Name: "sequence_" + world.Name, Value: world.Sequence, Relation: bench.AtLeast, Bound: sequenceLeast})
	}
	slowest, memory, growth := costs[0].PerMinute, 0.0, 0.0
	for i, c := range costs[:len(judged)] {
		slowest, memory = min(slowest, c.PerMinute), max(memory, c.MiB)
		growth = max(growth, c.MiB/costs[len(judged)+i].MiB)
	}
	return append(out,
		bench.Bar{Name: "decisions_per_cpu_minute", Value: slowest, Relation: bench.AtLeast, Bound: perMinute},
		bench.Bar{Name: "peak_memory_mib", Value: memory, Relation: bench.AtMost, Bound: mostMemory},
		bench.Bar{Name: "memory_large_over_small", Value: growth, Relation: bench.AtMost, Bound: mostGrowth},
	)
}

func printCoverage(w io.Writer, worlds []covered) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "bandit\testimator\tbias of the effect\tRMSE\tcovered")
	for _, world := range worlds {
		for _, e := range world.Estimators {
			fmt.Fprintf(t, "%s\t%s\t%+.4f\t%.4f\t%.1f %%\n", world.Name, e.Name, e.Bias, e.RMSE, 100*e.Coverage)
		}
		fmt.Fprintf(t, "%s\tconfidence sequence\t\t%.2f wide\t%.1f %%, at every moment\n", world.Name, world.Width, 100*world.Sequence)
	}
	_ = t.Flush()
}

func printCosts(w io.Writer, costs []cost) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "log\ttarget\tdecisions\tjudged\tCPU\tdecisions/CPU minute\tpeak memory")
	for _, c := range costs {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%.1f s\t%.0f\t%.0f MiB\n", c.Log, c.Target, c.Decisions, c.Judged, c.CPU, c.PerMinute, c.MiB)
	}
	_ = t.Flush()
}
