package trainer

import (
	"context"
	"errors"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/trainer/learn"
)

// errUnfitted marks a fit that failed for what it was given, not for the store.
var errUnfitted = learn.ErrUnfitted

// fit makes a bundle of the learned samples; targets that are not learned keep
// the prior. It renews the lease before each head, so that a large window may
// take longer than one lease. What became of the engine goes into the cycle.
func (t *Trainer) fit(ctx context.Context, c *cycle, rows []sample, learned targets) (*bundle.Bundle, error) {
	task := learn.Task{
		LLM:          c.result.LLM,
		At:           c.began,
		Samples:      rows,
		Learned:      learned,
		Coefficients: t.config.coefficients(learn.Classes(rows)),
		BeforeHead:   func(ctx context.Context) error { return c.lease.Renew(ctx, leaseTime) },
	}
	settings := t.config.Settings()
	made, err := learn.Fit(ctx, task, settings)
	if !errors.Is(err, learn.ErrEngine) {
		c.engine = t.config.EngineName
		return made, err
	}
	t.metrics.engineFailures.Inc()
	if !t.config.OwnElse {
		return nil, err
	}
	t.log.Warn("the engine failed, and the forests are Spillway's own", "llm", c.result.LLM, "engine", t.config.EngineName, "error", err)
	c.engineFailed = err.Error()
	settings.Engine = nil
	return learn.Fit(ctx, task, settings)
}
