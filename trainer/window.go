package trainer

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/trainer/learn"
)

// sample is one row a refit can use.
type sample = learn.Sample

// samples reads the window of one LLM, in order of decision.
func (t *Trainer) samples(ctx context.Context, llm string, now time.Time) ([]sample, error) {
	var out []sample
	for row, err := range t.store.Window(ctx, llm, now.Add(-t.config.Window), now, t.config.WindowRows) {
		if err != nil {
			return nil, err
		}
		if s, ok := learn.SampleOf(&row); ok {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b sample) int { return cmp.Compare(a.Decided.UnixNano(), b.Decided.UnixNano()) })
	return out, nil
}
