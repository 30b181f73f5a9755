package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// print writes the tables.
func (r results) print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "latency from the intended time of sending, ms\trequests/s\tp50\tp90\tp99\tp99.9\tmost\tclient sent late p99\tfailed\t")
	line := func(name string, o outcome) {
		fmt.Fprintf(tw, "%s\t%.0f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%d\t\n", name, o.Rate, o.P50, o.P90, o.P99, o.P999, o.Most, o.Behind, o.Failed)
	}
	line(fmt.Sprintf("%d candidates, Unix socket", judgedRows), r.Judged)
	line(fmt.Sprintf("%d candidates, in process", judgedRows), r.InProcess)
	line(fmt.Sprintf("%d candidates, Unix socket, a new bundle every second", judgedRows), r.Swapping)
	for _, s := range r.Highest {
		line(fmt.Sprintf("%d candidates, the highest rate with p99 <= %d ms", s.Candidates, slowest), s.Best)
	}
	_ = tw.Flush()

	fmt.Fprintln(w)
	tw = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "CPU of a request of %d candidates\tus\tof bare\trows per CPU s\t\n", judgedRows)
	for _, x := range []struct {
		name string
		us   float64
	}{
		{"bare evaluation, one thread", r.Bare},
		{"in process, one thread", r.InProcessCPU},
		{"in process with leaves, one thread", r.Leaves},
		{"the server's process, Unix socket", r.Served},
		{"of that outside the kernel", r.ServedUser},
	} {
		fmt.Fprintf(tw, "%s\t%.1f\t%.2f\t%.0f\t\n", x.name, x.us, x.us/r.Bare, judgedRows*1e6/x.us)
	}
	_ = tw.Flush()
	fmt.Fprintln(w)
}
