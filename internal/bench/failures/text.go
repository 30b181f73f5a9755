package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// print writes the table: TTFT p99 against the matched configuration, in percent,
// and when forecasts stopped deciding.
func print(out io.Writer, verdicts []verdict) error {
	fmt.Fprintln(out, "TTFT after the injection against the matched configuration, in %, with 95 % intervals")
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "failure\tp99 pooled")
	for _, w := range verdicts[0].Worlds {
		fmt.Fprintf(tw, "\tp99 %s", w.World)
	}
	fmt.Fprintln(tw, "\tmean pooled\tfailed\tstate changes\tdecided after\tnoticed by\tafter the 200th")
	for i := range verdicts {
		v := &verdicts[i]
		fmt.Fprintf(tw, "%s\t%s", v.Failure, v.Pooled)
		for _, w := range v.Worlds {
			fmt.Fprintf(tw, "\t%s", w.P99)
		}
		after := "-"
		if v.Noticed > 0 || v.Missed > 0 {
			after = v.After.Round(10 * time.Millisecond).String()
		}
		if v.Missed > 0 {
			after = fmt.Sprintf("never in %d runs", v.Missed)
		}
		fmt.Fprintf(tw, "\t%s\t%d\t%d\t%d\t%v\t%s\n", v.Mean, v.Failed, v.Changes, v.Decided, v.Noticed.Round(10*time.Millisecond), after)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nwhat ended live operation, in runs")
	for i := range verdicts {
		for _, reason := range slices.Sorted(maps.Keys(verdicts[i].Reasons)) {
			fmt.Fprintf(out, "  %s: %s: %d\n", verdicts[i].Failure, reason, verdicts[i].Reasons[reason])
		}
		if n := verdicts[i].Before; n > 0 {
			fmt.Fprintf(out, "  %s: %d changes before the injection\n", verdicts[i].Failure, n)
		}
	}
	_, err := fmt.Fprintln(out)
	return err
}
