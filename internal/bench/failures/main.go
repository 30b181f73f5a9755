package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/spillway-llm/spillway/internal/bench"
)

// options are the flags.
type options struct {
	out, worlds, failures string
	seed                  uint64
	seeds                 int
	knees                 bool
}

func main() {
	var o options
	flag.String("data", "", "not used: everything is simulated")
	flag.StringVar(&o.out, "out", "", "folder for failures.json")
	flag.StringVar(&o.worlds, "worlds", "", "run only these worlds, as \"rag,mixed\": no bars")
	flag.StringVar(&o.failures, "failures", "", "run only these failures, as \"hung,nan\": no bars")
	flag.Uint64Var(&o.seed, "seed", 1, "the first seed; each draws engines and traffic")
	flag.IntVar(&o.seeds, "seeds", 30, "number of seeds")
	flag.BoolVar(&o.knees, "knees", false, "find the knees of the worlds instead")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := judge(ctx, os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "failures:", err)
		os.Exit(1)
	}
}

func judge(ctx context.Context, w io.Writer, o options) error {
	if o.seeds < 2 {
		return fmt.Errorf("--seeds: want at least 2, not %d", o.seeds)
	}
	worlds, err := chosen("--worlds", o.worlds, worlds(), func(w world) string { return w.Name })
	if err != nil {
		return err
	}
	if o.knees {
		return printKnees(ctx, w, worlds)
	}
	all, err := failures()
	if err != nil {
		return err
	}
	if all, err = chosen("--failures", o.failures, all, func(f failure) string { return f.name }); err != nil {
		return err
	}
	fleets := 0
	for _, w := range worlds {
		fleets += w.fleets
	}
	var seeds []uint64
	for i := range o.seeds {
		seeds = append(seeds, o.seed+uint64(i))
	}
	verdicts, sizes, err := compare(ctx, worlds, all, seeds, bench.Progress("simulations", fleets*len(seeds)*(len(all)+2)))
	if err != nil {
		return err
	}
	report := bench.Report{
		Name: "failures", Command: "make bench-failures", Origin: bench.Here(), Seeds: seeds, Sizes: sizes, Data: verdicts,
	}
	if err := print(w, verdicts); err != nil {
		return err
	}
	if o.worlds != "" || o.failures != "" {
		return nil
	}
	for i := range verdicts {
		report.Bars = append(report.Bars, verdicts[i].bars(&all[i])...)
	}
	report.Print(w)
	if o.out != "" {
		if err := report.Save(o.out); err != nil {
			return err
		}
	}
	return report.Err()
}

// chosen are those of all that a flag's list names; all without one.
func chosen[T any](name, list string, all []T, of func(T) string) ([]T, error) {
	if list == "" {
		return all, nil
	}
	var out []T
	words := strings.Split(list, ",")
	for _, x := range all {
		if slices.Contains(words, of(x)) {
			out = append(out, x)
		}
	}
	if len(out) != len(words) {
		return nil, fmt.Errorf("%s: %q names one that there is not, or one twice", name, list)
	}
	return out, nil
}

// printKnees finds the knees and prints them.
func printKnees(ctx context.Context, out io.Writer, worlds []world) error {
	for i := range worlds {
		knee, slowdown, err := worlds[i].FindKnee(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: knee %.3g requests/s, slowdown %.2f there\n", worlds[i].Name, knee, slowdown)
	}
	return nil
}
