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

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/bench/trial"
)

// options are the flags.
type options struct {
	out             string
	seed            uint64
	seeds           int
	worlds, targets int
	exploring       int
}

// What is judged.
const (
	fullTargets   = 4
	fullRepeats   = 8
	fullExploring = 96
)

func main() {
	var o options
	flag.StringVar(&o.out, "out", "", "folder for evaluate.json, evaluate.md and the plot")
	flag.String("data", "", "not read: everything is simulated")
	flag.Uint64Var(&o.seed, "seed", 1, "draws engines, traffic and noise")
	flag.IntVar(&o.seeds, "seeds", fullRepeats, "runs of each policy that the true effect is from, at least 2; where they differ much, up to twice as many. With fewer there are no bars")
	flag.IntVar(&o.worlds, "worlds", 0, "the first so many worlds; 0: all. With fewer there are no bars")
	flag.IntVar(&o.targets, "pairs", fullTargets, "targets of each world. With fewer there are no bars")
	flag.IntVar(&o.exploring, "exploring", fullExploring, "seeds that the cost of exploring is measured with; 0: it is not")
	flag.Parse()
	bench.Main("evaluate", func(ctx context.Context) error { return run(ctx, os.Stdout, o) })
}

// whole reports whether everything is asked for that bars are of.
func (o *options) whole() bool {
	return o.worlds == 0 && o.targets >= fullTargets && o.seeds >= fullRepeats && o.exploring >= fullExploring
}

func run(ctx context.Context, out io.Writer, o options) error {
	switch {
	case o.seeds < 2:
		return fmt.Errorf("--seeds %d: want at least 2", o.seeds)
	case o.worlds < 0 || o.targets < 1 || o.exploring < 0:
		return errors.New("--worlds, --pairs, --exploring: want none below 0, and a pair at least")
	}
	studies, prices, err := judgeAll(ctx, &o)
	if err != nil {
		return err
	}
	report := bench.Report{
		Name: "evaluate", Command: "make bench-evaluate", Origin: bench.Here(), Seeds: []uint64{o.seed}, Data: newRecord(studies, prices),
		Sizes: map[string]int{"worlds": len(studies), "pairs": len(pairsOf(studies)), "runs of each policy": o.seeds, "seeds of exploring": o.exploring},
	}
	for _, s := range studies {
		report.Sizes["requests that truth is from"] += s.sent
	}
	if o.whole() {
		report.Bars = bars(studies, prices)
	}
	var text bytes.Buffer
	writeText(&text, &report, studies, prices)
	if _, err := out.Write(text.Bytes()); err != nil {
		return err
	}
	report.Print(out)
	if o.out != "" {
		if err := report.Save(o.out); err != nil {
			return err
		}
		fmt.Fprint(&text, "\n![estimated against true effects](evaluate.svg)\n")
		if err := bench.Write(filepath.Join(o.out, "evaluate.md"), text.Bytes()); err != nil {
			return err
		}
		if err := bench.Write(filepath.Join(o.out, "evaluate.svg"), []byte(scatter(pairsOf(studies)))); err != nil {
			return err
		}
	}
	return report.Err()
}

// judgeAll judges all worlds, and what exploring costs, as many at once as there
// are processors.
func judgeAll(ctx context.Context, o *options) ([]*study, []price, error) {
	worlds := allWorlds(o.worlds, o.targets)
	studies := make([]*study, len(worlds))
	done := bench.Progress("worlds", len(worlds))
	err := trial.Each(ctx, len(worlds), func(ctx context.Context, i int) (err error) {
		studies[i], err = worlds[i].judge(ctx, o.seed+uint64(i), o.seeds)
		done()
		return err
	})
	if err != nil || o.exploring == 0 {
		return studies, nil, err
	}
	prices, err := explore(ctx, o.seed, o.exploring, bench.Progress("exploring", o.exploring*len(explored)))
	return studies, prices, err
}
