package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spillway-llm/spillway/internal/bench"
)

// print writes the tables.
func (r *results) print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "\nTTFT of %d KiB prompts, ms\talone p50\tp99\t%d streams p50\tp99\tadded p50\tp99\trequests\tfailed\t\n", long>>10, streams)
	base := r.Rows[direct].Crowd
	for _, x := range r.Rows {
		fmt.Fprintf(tw, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%d\t%d\t\n", x.Way,
			x.Alone.P50, x.Alone.P99, x.Crowd.P50, x.Crowd.P99, x.Crowd.P50-base.P50, x.Crowd.P99-base.P99, x.Requests, x.Failed)
	}
	_ = tw.Flush()
	tw = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "\nthe process in between\tCPU us a request of %d KiB\tof %d KiB\tallocs\tCPU us a streamed token\tallocs\theap MB early\tlate\ttokens/s of streams at full speed\t\n", long>>10, short>>10)
	for _, x := range r.Rows {
		fmt.Fprintf(tw, "%s\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t%.1f\t%.1f\t%.0f\t\n", x.Way,
			x.CPULong, x.CPUShort, x.AllocsLong, x.CPUEvent, x.AllocsEvent, float64(x.HeapEarly)/1e6, float64(x.HeapLate)/1e6, x.EventsASecond)
	}
	_ = tw.Flush()
	fmt.Fprintln(w)
}

// bars are what is promised: that nothing is lost, that memory does not grow with
// the length of streams, and what it may cost beside a proxy that only copies.
func (r *results) bars() []bench.Bar {
	proxy, router := &r.Rows[proxied], &r.Rows[routed]
	return []bench.Bar{
		{Name: "failed_requests", Value: float64(router.Failed), Relation: bench.AtMost, Bound: 0},
		{Name: "missing_tokens", Value: float64(router.Missing), Relation: bench.AtMost, Bound: 0},
		{Name: "heap_late_over_early", Value: float64(router.HeapLate) / float64(router.HeapEarly), Relation: bench.AtMost, Bound: 1.1},
		{Name: "ttft_p50_over_bare_proxy", Value: router.Crowd.P50 / proxy.Crowd.P50, Relation: bench.AtMost, Bound: 1.5},
		{Name: "ttft_p99_over_bare_proxy", Value: router.Crowd.P99 / proxy.Crowd.P99, Relation: bench.AtMost, Bound: 2},
		{Name: "cpu_long_request_over_bare_proxy", Value: router.CPULong / proxy.CPULong, Relation: bench.AtMost, Bound: 2},
		{Name: "cpu_streamed_token_over_bare_proxy", Value: router.CPUEvent / proxy.CPUEvent, Relation: bench.AtMost, Bound: 1.5},
		{Name: "stream_throughput_over_bare_proxy", Value: median(r.Throughput), Relation: bench.AtLeast, Bound: 0.7},
	}
}
