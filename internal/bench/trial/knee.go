package trial

import (
	"context"
	"time"

	"github.com/spillway-llm/spillway/internal/fleet"
)

const (
	kneeSlowdown = 3.0
	kneeStep     = 1.05 // how finely loads are tried
	kneeSeed     = 1001
	kneeSeeds    = 3
	kneeLength   = 10 * time.Minute
)

// FindKnee finds the knee of a world as the constants' comment says, from a third
// of what is believed to be it.
func (w World) FindKnee(ctx context.Context) (knee, slowdown float64, err error) {
	w.Before, w.Judged = time.Minute, kneeLength
	for load := w.Knee / 3; ; load *= kneeStep {
		sums := make([]float64, kneeSeeds)
		err := Each(ctx, kneeSeeds, func(ctx context.Context, i int) error {
			c, err := w.Config(kneeSeed+uint64(i), load/w.Knee)
			if err != nil {
				return err
			}
			r, err := fleet.Simulate(ctx, c)
			if err != nil {
				return err
			}
			sums[i] = float64(r.Summary(r.All(), fleet.SLO{}).Slowdown)
			return nil
		})
		if err != nil {
			return 0, 0, err
		}
		mean := (sums[0] + sums[1] + sums[2]) / kneeSeeds
		if !(mean < kneeSlowdown) {
			return knee, slowdown, nil
		}
		knee, slowdown = load, mean
	}
}
