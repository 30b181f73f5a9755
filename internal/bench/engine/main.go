package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spillway-llm/spillway/internal/bench"
)

func main() {
	var data, out, base string
	flag.StringVar(&data, "data", os.Getenv("SPILLWAY_DATA"), "folder of the public measurements, with measured-llmservingsim")
	flag.StringVar(&out, "out", "", "folder for engine.json")
	flag.StringVar(&base, "fit", "RTXPRO6000_Qwen3-30B-A3B-Instruct-2507", "run that the judged step model is fitted to")
	flag.Parse()
	if err := run(os.Stdout, data, out, base); err != nil {
		fmt.Fprintln(os.Stderr, "engine:", err)
		os.Exit(1)
	}
}

// waitBound is the greatest median error of queue wait, of requests that waited.
const waitBound = 0.15

func run(w io.Writer, data, out, base string) error {
	if data == "" {
		return errors.New("--data: want the folder of the public measurements, or set SPILLWAY_DATA")
	}
	runs, err := load(data)
	if err != nil {
		return err
	}
	report := bench.Report{
		Name: "engine", Command: "make bench-engine", Origin: bench.Here(), Sizes: map[string]int{"runs": len(runs)},
	}
	for _, r := range runs {
		report.Sizes["requests"] += len(r.requests)
	}
	// The judged fit comes first.
	slices.SortStableFunc(runs, func(a, b recording) int { return cmp.Compare(order(a, base), order(b, base)) })
	if runs[0].name != base {
		return fmt.Errorf("--fit: no run %q", base)
	}
	fmt.Fprintf(w, "Error of each request, median and p90, in %%. Waited: longer than %v.\n", waited)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "fitted to\treplayed\tas slow in prefill\tin decode\twaited\tqueue wait\t\tprefill\t\tTTFT, did not wait\t\tdecode\t")
	var all []verdict
	for _, from := range runs {
		judged, err := replayAll(runs, from)
		if err != nil {
			return err
		}
		all = append(all, judged...)
	}
	for _, j := range all {
		fmt.Fprintf(t, "%s\t%s\t%.2f\t%.2f\t%d of %d\t%s\t%s\t%s\t%s\n", j.Fitted, j.Run, j.Prefill, j.Decode, j.QueueWait.Requests, j.Requests,
			j.QueueWait, j.PrefillError, j.Unqueued, j.DecodeError)
		if j.Fitted == base && j.Run != base {
			name := strings.ToLower(strings.NewReplacer("-", "_", ".", "_").Replace(j.Run))
			report.Bars = append(report.Bars, bench.Bar{
				Name: "engine_queue_wait_median_error_" + name, Value: j.QueueWait.Median, Relation: bench.AtMost, Bound: waitBound,
			})
		}
	}
	report.Data = all
	if err := t.Flush(); err != nil {
		return err
	}
	report.Print(w)
	if out != "" {
		if err := report.Save(out); err != nil {
			return err
		}
	}
	return report.Err()
}

// order puts the run of that name first.
func order(r recording, name string) int {
	if r.name == name {
		return 0
	}
	return 1
}
