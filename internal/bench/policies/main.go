package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spillway-llm/spillway/internal/bench"
)

// options are the flags.
type options struct {
	data, out, worlds string
	seed              uint64
	seeds             int
	ablate, knees     bool
}

func main() {
	var o options
	flag.StringVar(&o.data, "data", os.Getenv("SPILLWAY_DATA"), "folder that holds traces")
	flag.StringVar(&o.out, "out", "", "folder for policies.json, policies.md and the plot")
	flag.StringVar(&o.worlds, "worlds", "", "run only worlds whose name contains one of these words, as \"rag,mixed\": no bars")
	flag.Uint64Var(&o.seed, "seed", 1, "the first seed; each draws engines and traffic")
	flag.IntVar(&o.seeds, "seeds", 8, "number of seeds")
	flag.BoolVar(&o.ablate, "ablate", false, "also switch off each term of the cost and each correction, with half of the seeds")
	flag.BoolVar(&o.knees, "knees", false, "find the knees of the worlds instead")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "policies:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, o options) error {
	if o.data == "" {
		return errors.New("--data: want the folder of the public traces, or set SPILLWAY_DATA")
	}
	if o.seeds < 2 {
		return fmt.Errorf("--seeds: want at least 2, not %d", o.seeds)
	}
	var words []string
	if o.worlds != "" {
		words = strings.Split(o.worlds, ",")
	}
	worlds, err := allWorlds(o.data, words)
	if err != nil {
		return err
	}
	if o.knees {
		return printKnees(ctx, out, worlds)
	}
	var seeds []uint64
	for i := range o.seeds {
		seeds = append(seeds, o.seed+uint64(i))
	}
	run, command := arms, "make bench-policies"
	if o.ablate {
		run, command = slices.Concat(arms, ablations), command+" ABLATE=1"
	}
	studies, err := runAll(ctx, worlds, run, seeds, bench.Progress("worlds", len(worlds)*len(seeds)))
	if err != nil {
		return err
	}
	report := bench.Report{
		Name: "policies", Command: command, Origin: bench.Here(), Seeds: seeds, Sizes: sizes(studies), Data: newRecord(studies),
	}
	if len(words) == 0 {
		report.Bars = bars(studies)
	}
	var text bytes.Buffer
	writeText(&text, &report, studies)
	if _, err := out.Write(text.Bytes()); err != nil {
		return err
	}
	report.Print(out)
	if o.out != "" && len(words) == 0 {
		if err := report.Save(o.out); err != nil {
			return err
		}
		fmt.Fprint(&text, "\n![what predicted changes](policies.svg)\n")
		if err := bench.Write(filepath.Join(o.out, "policies.md"), text.Bytes()); err != nil {
			return err
		}
		if err := bench.Write(filepath.Join(o.out, "policies.svg"), []byte(chart(studies).SVG())); err != nil {
			return err
		}
	}
	return report.Err()
}

// sizes is how much was simulated.
func sizes(studies []*study) map[string]int {
	out := map[string]int{"endpoints": endpoints}
	for _, s := range studies {
		for a := range s.cells {
			for l := range s.cells[a] {
				for _, c := range s.cells[a][l][:s.count(a)] {
					out["simulations"]++
					out["requests judged"] += c.Requests
				}
			}
		}
		for _, l := range s.lessons {
			out["rows learned"] += l.rows
		}
	}
	return out
}
