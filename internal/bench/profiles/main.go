// Command profiles judges the fits of package physics/fit on measured rows that
// they have not seen: steady states of many deployments, dispatches to a real
// endpoint, and an engine's own time stamps. It prints a table by regime, a
// table by deployment, and a line for each bar.
package main

import (
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/measured"
	"github.com/spillway-llm/spillway/internal/physics/fit"
)

func main() {
	data := flag.String("data", os.Getenv("SPILLWAY_DATA"), "folder of the public measurements (silicon, measured-h200, measured-llmservingsim)")
	out := flag.String("out", "", "folder for profiles.json")
	flag.Parse()
	if err := run(os.Stdout, *data, *out); err != nil {
		fmt.Fprintln(os.Stderr, "profiles:", err)
		os.Exit(1)
	}
}

// The bounds: what a fit should reach in the median on rows it has not seen.
const (
	ttftBound = 0.12
	tpotBound = 0.08
)

func run(w io.Writer, data, out string) error {
	if data == "" {
		return fmt.Errorf("--data: want the folder of the public measurements, or set SPILLWAY_DATA")
	}
	report := bench.Report{
		Name: "profiles", Command: "make bench-profiles", Origin: bench.Here(), Sizes: map[string]int{},
	}
	var tables []table
	for _, part := range []func(string, *bench.Report) ([]table, error){silicon, h200, servingSim} {
		t, err := part(data, &report)
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
	if out != "" {
		if err := report.Save(out); err != nil {
			return err
		}
	}
	return report.Err()
}

// table is the quality of some groups of rows.
type table struct {
	Title string        `json:"title"`
	Rows  []fit.Quality `json:"rows"`
}

func (t table) print(w io.Writer) error {
	fmt.Fprintf(w, "%s\n", t.Title)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "\tTTFT rows\tmedian\tp90\tworst\tTPOT rows\tmedian\tp90\tworst\t")
	for _, q := range t.Rows {
		fmt.Fprintf(tw, "%s\t%s\t%s\t\n", q.Group, cells(q.TTFT), cells(q.TPOT))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

func cells(s fit.Spread) string {
	if s.Rows == 0 {
		return "0\t\t\t"
	}
	return fmt.Sprintf("%d\t%.1f %%\t%.1f %%\t%.1f %%", s.Rows, 100*s.Median, 100*s.P90, 100*s.Worst)
}

// bars are the two promises about one group.
func bars(name string, q fit.Quality) []bench.Bar {
	return []bench.Bar{
		{Name: name + "_ttft_median", Value: q.TTFT.Median, Relation: bench.AtMost, Bound: ttftBound},
		{Name: name + "_tpot_median", Value: q.TPOT.Median, Relation: bench.AtMost, Bound: tpotBound},
	}
}

// rowsOf reads a file below the data folder.
func rowsOf[T any](data, name string, read func(io.Reader) iter.Seq2[T, error]) ([]T, error) {
	f, err := os.Open(filepath.Join(data, name))
	if err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	defer f.Close()
	r, err := measured.Open(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	rows, report, err := measured.Collect(read(r))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if report.Broken > 0 {
		return nil, fmt.Errorf("%s: %d broken lines, the first is %w", name, report.Broken, report.First[0])
	}
	return rows, nil
}
