package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/physics"
)

// options are the flags.
type options struct {
	data, out, profile string
	seed               uint64
	seeds              int
	ablate             bool
}

func main() {
	var o options
	flag.StringVar(&o.data, "data", os.Getenv("SPILLWAY_DATA"), "folder with codegen.csv, reasoning.csv and b2b-saas.csv, or the one above a folder \"published\" with them")
	flag.StringVar(&o.out, "out", "", "folder for published.json, published.md and the plots")
	flag.StringVar(&o.profile, "profile", "qwen3-32b-h100-tp2-routing", "engine profile of all arms and workloads")
	flag.Uint64Var(&o.seed, "seed", 1, "the first seed")
	flag.IntVar(&o.seeds, "seeds", 4, "number of seeds")
	flag.BoolVar(&o.ablate, "ablate", true, "show what each mechanism does, with the first seed")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "published:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, o options) error {
	if o.data == "" {
		return errors.New("--data: want the folder of the published tables, or set SPILLWAY_DATA")
	}
	if o.seeds < 1 {
		return fmt.Errorf("--seeds: want at least 1, not %d", o.seeds)
	}
	if below := filepath.Join(o.data, "published"); isFolder(below) {
		o.data = below
	}
	p, err := physics.Named(o.profile)
	if err != nil {
		return fmt.Errorf("--profile: %w", err)
	}
	var seeds []uint64
	for i := range o.seeds {
		seeds = append(seeds, o.seed+uint64(i))
	}
	total := runs(len(seeds))
	if o.ablate {
		total += runs(1) * (1 + len(mechanisms))
	}
	var requests atomic.Int64
	done := bench.Progress("simulations", total)
	all, err := compare(ctx, o.data, reality(p), seeds, &requests, done)
	if err != nil {
		return err
	}
	var ablations []ablation
	if o.ablate {
		if ablations, err = ablateAll(ctx, reality(p), all, seeds[:1], &requests, done); err != nil {
			return err
		}
	}
	report := bench.Report{
		Name: "published", Command: "make bench-published", Origin: bench.Here(), Seeds: seeds,
		Sizes: map[string]int{"simulations": total, "requests": int(requests.Load())},
		Bars:  bars(all), Data: newRecord(all, ablations),
	}
	var text bytes.Buffer
	writeText(&text, report.Command, seeds, all, ablations)
	if _, err := out.Write(text.Bytes()); err != nil {
		return err
	}
	fmt.Fprintln(out)
	report.Print(out)
	if o.out != "" {
		if err := save(o.out, report, text.Bytes(), all); err != nil {
			return err
		}
	}
	return report.Err()
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// runs is the number of simulations of all studies.
func runs(seeds int) (n int) {
	for _, s := range studies {
		n += s.runs(seeds)
	}
	return n
}

// compare reads and simulates every study.
func compare(ctx context.Context, data string, w world, seeds []uint64, requests *atomic.Int64, done func()) ([]comparison, error) {
	var all []comparison
	for _, s := range studies {
		published, again, err := s.load(data)
		if err != nil {
			return nil, err
		}
		simulated, each, err := s.simulate(ctx, w, seeds, requests, done)
		if err != nil {
			return nil, err
		}
		all = append(all, comparison{s, published, simulated, each, again})
	}
	return all, nil
}

func save(folder string, report bench.Report, text []byte, all []comparison) error {
	if err := report.Save(folder); err != nil {
		return err
	}
	for _, c := range all {
		if err := c.charts(folder); err != nil {
			return err
		}
		for _, file := range []string{"ttft", "throughput"} {
			text = fmt.Appendf(text, "\n![%s, %s](published-%s-%s.svg)\n", c.study.name, file, c.study.name, file)
		}
	}
	return bench.Write(filepath.Join(folder, "published.md"), text)
}

// record is the table as it is saved.
type record struct {
	Studies   []savedStudy `json:"studies"`
	Spread    []spread     `json:"by_seed"`
	Ablations []ablation   `json:"ablations,omitempty"`
}

type savedStudy struct {
	Workload  string     `json:"workload"`
	Endpoints int        `json:"endpoints"`
	Loads     []float64  `json:"loads"`
	Arms      []savedArm `json:"arms"`
}

type savedArm struct {
	Name      string `json:"name"`
	Published []cell `json:"published"` // by load; null where there is none
	Simulated []cell `json:"simulated"`
}

func newRecord(all []comparison, ablations []ablation) record {
	r := record{Spread: spreads(all), Ablations: ablations}
	for _, c := range all {
		s := savedStudy{Workload: c.study.name, Endpoints: c.study.endpoints, Loads: c.published.loads}
		for a, arm := range arms {
			s.Arms = append(s.Arms, savedArm{arm.name, c.published.cells[a], c.simulated.cells[a]})
		}
		r.Studies = append(r.Studies, s)
	}
	return r
}
