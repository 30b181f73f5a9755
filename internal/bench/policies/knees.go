package main

import (
	"context"
	"fmt"
	"io"
	"math"
)

const (
	kneeSlowdown = 3.0
	kneeStep     = 1.05 // how finely loads are tried
	kneeSeeds    = 3    // of the development seeds, from the first
	kneeSeed     = 1001
)

// printKnees finds the knees of worlds and prints them. Loads rise by kneeStep
// from half of what is believed to be the knee; the last one at which the lesser
// mean slowdown of the two matched configurations is below kneeSlowdown is the
// knee.
func printKnees(ctx context.Context, out io.Writer, worlds []*world) error {
	for _, w := range worlds {
		if w.knee == 0 {
			continue
		}
		believed := w.knee
		knee, at := 0.0, math.NaN()
		for load := believed / 2; load < 4*believed; load *= kneeStep {
			w.loads = []float64{load}
			var seeds []uint64
			for i := range kneeSeeds {
				seeds = append(seeds, kneeSeed+uint64(i))
			}
			studies, err := runAll(ctx, []*world{w}, arms[:2], seeds, func() {})
			if err != nil {
				return err
			}
			least := math.Inf(1)
			for a := range studies[0].cells {
				sum := 0.0
				for _, c := range studies[0].cells[a][0] {
					sum += c.Value[slowdown] / kneeSeeds
				}
				least = min(least, sum)
			}
			if least > kneeSlowdown {
				break
			}
			knee, at = load, least
		}
		fmt.Fprintf(out, "%s: knee %.3g %s, slowdown %.2f there\n", w.name, knee, w.unit, at)
	}
	return nil
}
