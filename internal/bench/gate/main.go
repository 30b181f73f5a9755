// Gate judges the gate of the trainer: what it lets through of windows that are
// bad in ten ways, of windows in which there is nothing to learn, and of good
// ones. Each is one whole refit, on a store in memory; one in three stands
// beside a good bundle that is served. Nothing is timed: counts alone.
//
//	go run ./internal/bench/gate --out docs/results
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spillway-llm/spillway/internal/bench"
)

func main() {
	out := flag.String("out", "", "folder for gate.json")
	seed := flag.Uint64("seed", 1, "of the windows: the same seed makes the same windows")
	each := flag.Int("each", 100, "refits of each of the ten faults; twice as many of good windows, three times of empty ones")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *out, *seed, *each); err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(1)
	}
}

// The bounds. Of bad windows nothing is published, ever; the shares are what a
// refit should reach on the first try, and the next one has more rows.
const (
	falseBound = 0.05 // of windows with nothing to learn, published
	firstBound = 0.7  // of good windows as small as a first refit's, published
	laterBound = 0.8  // of good windows of 1,000 rows, published; seeds differ by a few hundredths
)

func run(ctx context.Context, w io.Writer, out string, seed uint64, each int) error {
	if each < 1 {
		return fmt.Errorf("--each: %d must be at least 1", each)
	}
	now := time.Now()
	kinds := append(faults,
		kind{"nothing to learn", 3 * each, nothing},
		kind{"good, first", 2 * each, good(420)},
		kind{"good, 1000 rows", each, good(1000)},
	)
	total := 0
	for i := range kinds {
		if kinds[i].refits == 0 {
			kinds[i].refits = each
		}
		total += kinds[i].refits
	}
	served, err := servedBundle(ctx, seed, now)
	if err != nil {
		return err
	}
	done := bench.Progress("refits", total)
	tallies := make([]*tally, len(kinds))
	for i := range kinds {
		if tallies[i], err = kinds[i].run(ctx, served, seed, now, done); err != nil {
			return fmt.Errorf("%s: %w", kinds[i].name, err)
		}
	}
	printTallies(w, tallies)
	report := bench.Report{
		Name: "gate", Command: "make bench-gate", Origin: bench.Here(), Seeds: []uint64{seed},
		Sizes: map[string]int{"refits": total, "bad": len(faults) * each}, Bars: bars(tallies), Data: tallies,
	}
	report.Print(w)
	if out != "" {
		if err := report.Save(out); err != nil {
			return err
		}
	}
	return report.Err()
}

func bars(tallies []*tally) []bench.Bar {
	bad := 0
	for _, t := range tallies[:len(faults)] {
		bad += t.Published
	}
	rest := tallies[len(faults):]
	return []bench.Bar{
		{Name: "bad_published", Value: float64(bad), Relation: bench.AtMost, Bound: 0},
		{Name: "nothing_published_share", Value: rest[0].share(), Relation: bench.AtMost, Bound: falseBound},
		{Name: "good_first_published_share", Value: rest[1].share(), Relation: bench.AtLeast, Bound: firstBound},
		{Name: "good_1000_published_share", Value: rest[2].share(), Relation: bench.AtLeast, Bound: laterBound},
	}
}

// tally is what came of the refits of one kind.
type tally struct {
	Kind      string         `json:"kind"`
	Refits    int            `json:"refits"`
	Published int            `json:"published"`
	Outcomes  map[string]int `json:"outcomes"`
	Grounds   map[string]int `json:"grounds"` // of refusals, each on all of its grounds
}

func (t *tally) share() float64 { return float64(t.Published) / float64(t.Refits) }

func printTallies(w io.Writer, tallies []*tally) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "window\trefits\tpublished\toutcomes\tgrounds")
	for _, t := range tallies {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%s\t%s\n", t.Kind, t.Refits, t.Published, counts(t.Outcomes), counts(t.Grounds))
	}
	if err := tw.Flush(); err != nil {
		fmt.Fprintln(w, err)
	}
	fmt.Fprintln(w)
}
