package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/crowd"
	"github.com/spillway-llm/spillway/internal/demo/child"
)

// restart is one of them, in seconds from its begin.
type restart struct {
	Told     bool    `json:"sigterm_first"` // else the next was started while the last served
	Serving  float64 `json:"serving"`       // until the last accepted no more
	Ended    float64 `json:"ended"`         // until the last had ended
	Requests int     `json:"requests"`      // sent meanwhile
	TTFT     float64 `json:"ttft_p99"`      // of those; 0 where there are none

	from, to time.Time
}

// takenOver reports whether a router has said that another took its place.
func takenOver(p *child.Process) bool {
	text, err := os.ReadFile(p.Log())
	return err == nil && bytes.Contains(text, []byte("another router has taken over"))
}

// findings are what came of it.
type findings struct {
	Restarts []restart `json:"restarts"`
	Requests int       `json:"requests"`
	Picked   int       `json:"through_the_picker"`
	Failed   int       `json:"failed"`
	Faults   []string  `json:"faults,omitempty"` // some of them
	During   quantiles `json:"ttft_during"`      // of requests sent while a restart was under way
	Apart    quantiles `json:"ttft_apart"`       // of the others

	Decisions int64 `json:"decisions"`
	Outcomes  int64 `json:"outcomes"`
	Joined    int64 `json:"joined"`
	Lost      int   `json:"decisions_lost"` // told to a client, and not in the store
	Unlike    int64 `json:"decisions_unlike_requests"`
}

// quantiles of TTFT as clients saw it, in seconds; 0 where there was no request.
type quantiles struct {
	Requests int     `json:"requests"`
	P50      float64 `json:"p50"`
	P99      float64 `json:"p99"`
	Most     float64 `json:"most"`
}

func quantilesOf(seconds []float64) quantiles {
	slices.Sort(seconds)
	return quantiles{len(seconds), at(seconds, 0.5), at(seconds, 0.99), at(seconds, 1)}
}

// at is a quantile of sorted numbers, by nearest rank; 0 of none, for JSON has no NaN.
func at(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// read looks at what clients saw and what the store holds.
func (f *findings) read(ctx context.Context, store *featurestore.Store, began time.Time, records []crowd.Record) error {
	var during, apart []float64
	meanwhile := make([][]float64, len(f.Restarts))
	decided := int64(0)
	told := map[string]bool{}
	for _, r := range records {
		f.Requests++
		if r.Proxied {
			f.Picked++
		}
		if r.Picked {
			decided++
		}
		if r.Decision != "" {
			told[r.Decision] = true
		}
		if r.Fault != "" {
			f.Failed++
			if len(f.Faults) < 20 {
				f.Faults = append(f.Faults, fmt.Sprintf("%s: %s", r.Sent.Format("15:04:05.000"), r.Fault))
			}
			continue
		}
		ttft := r.First.Sub(r.Sent).Seconds()
		in := slices.IndexFunc(f.Restarts, func(x restart) bool { return !r.Sent.Before(x.from) && r.Sent.Before(x.to) })
		if in < 0 {
			apart = append(apart, ttft)
			continue
		}
		during = append(during, ttft)
		meanwhile[in] = append(meanwhile[in], ttft)
	}
	for i, seconds := range meanwhile {
		q := quantilesOf(seconds)
		f.Restarts[i].Requests, f.Restarts[i].TTFT = q.Requests, q.P99
	}
	f.During, f.Apart = quantilesOf(during), quantilesOf(apart)

	from, to := began.Add(-time.Minute), time.Now().Add(time.Minute)
	counts, err := store.Count(ctx, from, to)
	if err != nil {
		return err
	}
	f.Decisions, f.Outcomes, f.Joined = counts.Decisions, counts.Outcomes, counts.Joined
	f.Unlike = max(decided-counts.Decisions, counts.Decisions-decided)
	for d, err := range store.Decisions(ctx, from, to, false) {
		if err != nil {
			return err
		}
		delete(told, d.ID.String())
	}
	f.Lost = len(told)
	return nil
}

func (f *findings) bars(restarts int) []bench.Bar {
	taken := 0
	for _, r := range f.Restarts {
		if r.Serving > 0 {
			taken++
		}
	}
	none := func(name string, n float64) bench.Bar {
		return bench.Bar{Name: name, Value: n, Relation: bench.AtMost, Bound: 0}
	}
	return []bench.Bar{
		{Name: "restarts_taken_over", Value: float64(taken), Relation: bench.AtLeast, Bound: float64(restarts)},
		{Name: "requests_during_restarts", Value: float64(f.During.Requests), Relation: bench.AtLeast, Bound: float64(20 * restarts)},
		none("requests_failed", float64(f.Failed)),
		none("decisions_lost", float64(f.Lost)),
		none("decisions_unlike_requests", float64(f.Unlike)),
		none("decisions_without_outcome", float64(f.Decisions-f.Joined)),
		none("outcomes_unlike_decisions", math.Abs(float64(f.Outcomes-f.Joined))),
	}
}

// print writes the table for people.
func (f *findings) print(w io.Writer) {
	fmt.Fprintf(w, "\n%d requests, %d of them through the picker, %d failed; %d decisions and %d outcomes stored, %d joined\n\n",
		f.Requests, f.Picked, f.Failed, f.Decisions, f.Outcomes, f.Joined)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "sent\trequests\tTTFT p50 s\tp99\tmost")
	for _, row := range []struct {
		name string
		quantiles
	}{{"during a restart", f.During}, {"at other times", f.Apart}} {
		fmt.Fprintf(t, "%s\t%d\t%.3f\t%.3f\t%.3f\n", row.name, row.Requests, row.P50, row.P99, row.Most)
	}
	t.Flush()
	for _, fault := range f.Faults {
		fmt.Fprintln(w, "failed:", fault)
	}
	fmt.Fprintln(w)
}
