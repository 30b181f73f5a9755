// Command forecast judges forecasts on rows that they have not seen: what a
// bundle says, beside its prior alone, trees alone, and a plain regression
// tree. Everything is learned through package trainer/learn with its own
// settings.
//
//	go run ./internal/bench/forecast --data DIR --out docs/results
//
// It prints a table and a line for each bar.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/spillway-llm/spillway/internal/bench"
)

func main() {
	var o options
	flag.StringVar(&o.data, "data", os.Getenv("SPILLWAY_DATA"), "folder that holds measured-h200")
	flag.Uint64Var(&o.seed, "seed", 1, "of the random split, the random pairs and the fits")
	flag.StringVar(&o.out, "out", "", "folder for forecast.json")
	flag.Parse()
	bench.Main("forecast", func(ctx context.Context) error { return run(ctx, os.Stdout, o) })
}

type options struct {
	data string
	seed uint64
	out  string
}

// part is one source of rows: it adds sizes and bars to the report, and its
// tables are printed and kept.
type part func(ctx context.Context, o options, report *bench.Report) ([]printed, error)

// parts are all of them, in the order of the report.
var parts = []part{measuredRows, simulatedRows}

func run(ctx context.Context, w io.Writer, o options) error {
	if o.data == "" {
		return fmt.Errorf("--data: want the folder of the public measurements, or set SPILLWAY_DATA")
	}
	report := bench.Report{
		Name: "forecast", Command: "make bench-forecast", Origin: bench.Here(), Seeds: []uint64{o.seed}, Sizes: map[string]int{},
	}
	var tables []printed
	for _, part := range parts {
		t, err := part(ctx, o, &report)
		if err != nil {
			return err
		}
		tables = append(tables, t...)
	}
	for _, t := range tables {
		if err := t.print(w); err != nil {
			return err
		}
	}
	report.Data = tables
	report.Print(w)
	if o.out != "" {
		if err := report.Save(o.out); err != nil {
			return err
		}
	}
	return report.Err()
}
