package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spillway-llm/spillway/internal/fleet"
)

// The development seeds, which judge nothing.
const (
	developmentSeed  = 1001
	developmentSeeds = 10
)

// printKnee shows the TTFT p90 of one router by load and development seed.
func printKnee(ctx context.Context, out io.Writer) error {
	for _, load := range []float64{3, 3.2, 3.4, 3.6, 3.8, 4, 4.2, 4.4} {
		fmt.Fprintf(out, "%.1f requests/s: TTFT p90", load)
		results, err := each(ctx, from(developmentSeed, developmentSeeds), load, length, arms[0], func() {})
		if err != nil {
			return err
		}
		for _, r := range results {
			fmt.Fprintf(out, "  %.3f s", r.Summary(r.Loaded, fleet.SLO{}).TTFT.P90)
		}
		fmt.Fprintln(out)
	}
	return nil
}
