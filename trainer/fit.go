package trainer

import (
	"context"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/trainer/learn"
)

// errUnfitted marks a fit that failed for what it was given, not for the store.
var errUnfitted = learn.ErrUnfitted

// fit makes a bundle of the learned samples; targets that are not learned keep
// the prior. It renews the lease before each head, so that a large window may
// take longer than one lease.
func (t *Trainer) fit(ctx context.Context, c *cycle, rows []sample, learned targets) (*bundle.Bundle, error) {
	return learn.Fit(ctx, learn.Task{
		LLM:          c.result.LLM,
		At:           c.began,
		Samples:      rows,
		Learned:      learned,
		Coefficients: t.config.coefficients(learn.Classes(rows)),
		BeforeHead:   func(ctx context.Context) error { return c.lease.Renew(ctx, leaseTime) },
	}, t.config.Settings())
}
