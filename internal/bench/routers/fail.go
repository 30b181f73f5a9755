package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
)

const (
	diesAt  = 5 * time.Minute
	downFor = 10 * time.Second
	settled = 30 * time.Second // after a death, TTFT is to be as it was
	judged  = 90 * time.Second // of which so much is looked at

	undisturbed = "nothing"
	death       = "death"
	restart     = "restart"
)

// failure is what happens to the second of two routers.
type failure struct {
	name  string
	share bool
}

var failures = []failure{
	{undisturbed, true}, {death, true}, {restart, true},
	{undisturbed, false}, {death, false}, {restart, false},
}

func (f failure) arm() arm {
	a := arm{f.name, fleet.Replicas{Count: 2, Share: f.share, ShareDelay: shareDelay}}
	switch f.name {
	case death:
		a.replicas.Outage = &fleet.Outage{Replica: 1, From: diesAt}
	case restart:
		a.replicas.Outage = &fleet.Outage{Replica: 1, From: diesAt, To: diesAt + downFor}
	}
	return a
}

// outage is what one failure came to, over all seeds together.
type outage struct {
	name string

	Happens  string         `json:"happens"`
	Share    bool           `json:"share"`
	Requests int            `json:"requests"`
	Cut      int            `json:"cut_off"`  // requests that died with the router, and were sent anew
	GaveUp   int            `json:"gave_up"`  // others, whose clients waited 600 s: the longest answers
	During   feature.Number `json:"ttft_p90"` // of requests sent within 30 s of the death
	Settled  feature.Number `json:"ttft_p90_after"`
	After    float64        `json:"ttft_p90_after_over_undisturbed"`
}

// fail runs every failure.
func fail(ctx context.Context, seeds []uint64, done func()) ([]outage, error) {
	var all []outage
	calm := map[bool]float64{}
	for _, f := range failures {
		o := outage{name: f.name, Happens: f.name, Share: f.share}
		var during, after []float64
		results, err := each(ctx, seeds, judgedLoad*knee, diesAt+settled+judged, f.arm(), done)
		if err != nil {
			return nil, err
		}
		for _, r := range results {
			o.Requests += len(r.Requests)
			for i := range r.Requests {
				x := &r.Requests[i]
				switch since := x.At - diesAt; {
				case x.Status == feature.Lost:
					o.Cut++
				case x.Status != feature.OK:
					o.GaveUp++
				case since < 0 || since >= settled+judged:
				case since < settled:
					during = append(during, x.TTFT.Seconds())
				default:
					after = append(after, x.TTFT.Seconds())
				}
			}
		}
		o.During, o.Settled = feature.Number(p90(during)), feature.Number(p90(after))
		if f.name == undisturbed {
			calm[f.share] = float64(o.Settled)
		}
		o.After = float64(o.Settled) / calm[f.share]
		all = append(all, o)
	}
	return all, nil
}

// p90 is the 90th percentile of values, which it sorts.
func p90(values []float64) float64 {
	if len(values) == 0 {
		return feature.Unknown
	}
	slices.Sort(values)
	return values[int(0.9*float64(len(values)-1))]
}

func printOutages(out io.Writer, all []outage) {
	fmt.Fprintf(out, "one of two routers dies at %.0f %% of the knee, for good or for %v; requests of all seeds together\n", 100*judgedLoad, downFor)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "what\trouters\tcut off\tgave up\tTTFT p90 s within %v\tin the %v after\tover undisturbed\t\n", settled, judged)
	for _, o := range all {
		how := "apart"
		if o.Share {
			how = "sharing"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%.3f\t%.3f\t%.3f\t\n", o.Happens, how, o.Cut, o.GaveUp, o.During, o.Settled, o.After)
	}
	w.Flush()
	fmt.Fprintln(out)
}
