package trainer

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/spillway-llm/spillway/trainer/learn"
)

// sample is one row a refit can use.
type sample = learn.Sample

// samples reads the window of one LLM, in order of decision, and looks for rows
// that can't be what they claim.
func (t *Trainer) samples(ctx context.Context, c *cycle) error {
	for row, err := range t.store.Window(ctx, c.result.LLM, c.began.Add(-t.config.Window), c.began, t.config.WindowRows) {
		if err != nil {
			return err
		}
		s, ok := learn.SampleOf(&row)
		if !ok {
			continue
		}
		if row.DecidedAt.After(c.newest) {
			c.newest = row.DecidedAt
		}
		flaw := flawOf(&row)
		c.flaws.add(flaw, math.Exp2(-c.began.Sub(row.DecidedAt).Seconds()/t.config.HalfLife.Seconds()))
		if flaw == "" {
			c.all = append(c.all, s)
		}
	}
	slices.SortStableFunc(c.all, func(a, b sample) int { return cmp.Compare(a.Decided.UnixNano(), b.Decided.UnixNano()) })
	return nil
}
