// Gbdt judges trainer/gbdt beside XGBoost and scikit-learn: the time and the CPU
// of the training call alone on the same rows, in turns within one run, and the
// loss on held-out rows; then what a million rows cost in CPU and memory, and
// whether monotone quantile forests keep their promise.
//
//	make bench-gbdt
//
// Of several repetitions the shortest counts. Even so the ratio of times means
// something on a quiet machine only: XGBoost's threads wait busily for each other,
// and where others take a core from one of them all the rest lose their time.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/spillway-llm/spillway/internal/bench"
)

func main() {
	var s settings
	out := flag.String("out", "", "folder for gbdt.json")
	flag.StringVar(&s.python, "python", "/usr/bin/python3", "interpreter that has numpy, xgboost and sklearn")
	flag.Uint64Var(&s.seed, "seed", 1, "of the rows and of training")
	flag.IntVar(&s.repeat, "repeat", 5, "turns at the smaller size; the larger has half as many")
	flag.IntVar(&s.threads, "threads", runtime.GOMAXPROCS(0), "threads of every tool")
	flag.Float64Var(&s.scale, "scale", 1, "share of the rows, for a quick look: below 1 there are no bars and no file")
	flag.Parse()
	bench.Main("gbdt", func(ctx context.Context) error { return run(ctx, os.Stdout, s, *out) })
}

// settings are what a run depends on.
type settings struct {
	python          string
	seed            uint64
	repeat, threads int
	scale           float64
}

// Rows, before they are scaled.
const (
	smallRows = 50_000
	largeRows = 500_000
	mostRows  = 1_000_000
	heldRows  = 200_000
)

func (s settings) rows(n int) int { return int(s.scale * float64(n)) }

func run(ctx context.Context, w io.Writer, s settings, out string) error {
	folder, err := os.MkdirTemp("", "spillway-gbdt-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	data := makeRows(s.rows(mostRows), s.seed)
	held := makeRows(s.rows(heldRows), s.seed+1)
	if err := write(firstRows(data, s.rows(largeRows)), folder, "train"); err != nil {
		return err
	}
	if err := write(held, folder, "held"); err != nil {
		return err
	}
	rivals, err := startRivals(ctx, s, folder)
	if err != nil {
		return err
	}
	var all []comparison
	for _, c := range []comparison{
		{Rows: s.rows(smallRows), Objective: "squared", turns: s.repeat},
		{Rows: s.rows(largeRows), Objective: "squared", turns: (s.repeat + 1) / 2},
		{Rows: s.rows(smallRows), Objective: "quantile", turns: (s.repeat + 1) / 2},
		{Rows: s.rows(largeRows), Objective: "quantile", turns: (s.repeat + 2) / 3},
	} {
		if err := c.run(ctx, rivals, s, data, held); err != nil {
			return err
		}
		c.print(w, s.threads)
		all = append(all, c)
	}
	for _, r := range rivals {
		if err := r.stop(); err != nil {
			return fmt.Errorf("scripts/bench-gbdt.py: %w", err)
		}
	}
	heavy, err := million(ctx, s, data)
	if err != nil {
		return err
	}
	for _, h := range heavy {
		h.print(w)
	}
	m, err := monotone(ctx, s, firstRows(data, s.rows(smallRows)), held)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "monotone quantile forests: %d of %d pairs violate; loss %.5f, %.5f without signs\n", m.Violations, m.Pairs, m.Loss, m.FreeLoss)
	if s.scale != 1 {
		return nil
	}
	report := bench.Report{
		Name: "gbdt", Command: "make bench-gbdt", Origin: bench.Here(), Seeds: []uint64{s.seed},
		Sizes: map[string]int{"features": len(names), "small_rows": smallRows, "large_rows": largeRows, "most_rows": mostRows, "held_rows": heldRows, "threads": s.threads},
		Bars:  bars(all, heavy, m),
		Data:  map[string]any{"compared": all, "million": heavy, "monotone": m},
	}
	report.Print(w)
	if out != "" {
		if err := report.Save(out); err != nil {
			return err
		}
	}
	return report.Err()
}
