package learn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/physics/fit"
	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// Quantiles are those of the heads, by bundle.Target.
var Quantiles = [bundle.Targets]float64{bundle.TTFTP50: 0.5, bundle.TTFTP90: 0.9, bundle.TPOTP50: 0.5, bundle.TPOTP90: 0.9}

// ErrUnfitted marks a fit that failed for what it was given.
var ErrUnfitted = errors.New("the fit failed")

// Task is one fit.
type Task struct {
	LLM          string
	At           time.Time // creation time of the bundle
	Samples      []Sample  // in order of decision, at least one
	Learned      [bundle.Targets]bool
	Coefficients map[string]physics.Coefficients // of the prior, by endpoint class

	// BeforeHead, when set, runs before each head is fitted; its error ends the
	// fit and is returned as it is.
	BeforeHead func(context.Context) error
}

// Fit makes a bundle of samples: a prior fitted to them, and heads on what
// remains. What a head's forest is worth is found out on the later of the
// samples alone, from a fit to the earlier ones; a forest that has proven
// nothing there is left out, and the fitted prior stands. Heads that are not
// learned keep the prior of the vector. An error wraps ErrUnfitted, or is that
// of the context or of BeforeHead.
func Fit(ctx context.Context, task Task, settings Settings) (*bundle.Bundle, error) {
	if len(task.Samples) == 0 {
		return nil, fmt.Errorf("%w: no samples", ErrUnfitted)
	}
	var proven [bundle.Targets]worth
	var trials [bundle.Targets][]fold
	var forms fit.Forms
	plain, rich, err := foldsOf(ctx, thinned(ofOneTime(task.Samples), trialMost), &settings)
	if err != nil {
		return nil, unfitted(ctx, bundle.TTFTP50, err)
	}
	for _, x := range []struct {
		target bundle.Target
		form   *fit.Form
	}{{bundle.TTFTP50, &forms.TTFT}, {bundle.TPOTP50, &forms.TPOT}} {
		if !task.Learned[x.target] {
			continue
		}
		if err := task.before(ctx); err != nil {
			return nil, err
		}
		if *x.form, proven[x.target], trials[x.target], err = form(ctx, x.target, plain, rich, &settings); err != nil {
			return nil, unfitted(ctx, x.target, err)
		}
	}
	level, _ := levelled(task.Samples, settings.HalfLife)
	all := eraOf(level, forms, settings.HalfLife)
	binned, err := gbdt.Bin(ctx, feature.Names(), wide(all.samples), settings.options(bundle.TTFTP50))
	if err != nil {
		return nil, unfitted(ctx, bundle.TTFTP50, err)
	}
	b := bundle.Bundle{
		LLM:          task.LLM,
		CreatedAt:    task.At.UTC(),
		Seed:         settings.Seed,
		Window:       bundle.Window{Rows: len(all.samples), From: all.samples[0].Decided, To: all.samples[len(all.samples)-1].Decided},
		Coefficients: task.Coefficients,
		Fitted:       all.fitted,
		Support:      bundle.SupportOf(Vectors(all.samples)),
	}
	for target := range bundle.Targets {
		if err := task.before(ctx); err != nil {
			return nil, err
		}
		switch p50 := target &^ 1; {
		case !task.Learned[target]:
			b.Heads[target], err = priorStays()
		case target != p50:
			if proven[target], err = try(ctx, target, trials[p50], &settings); err != nil {
				break
			}
			fallthrough
		default:
			b.Heads[target], err = head(ctx, target, &all, binned, proven[target], &settings)
		}
		if err != nil {
			return nil, unfitted(ctx, target, err)
		}
	}
	made, err := bundle.New(b, Vectors(all.samples))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnfitted, err)
	}
	return made, nil
}

// before runs BeforeHead.
func (t *Task) before(ctx context.Context) error {
	if t.BeforeHead == nil {
		return nil
	}
	return t.BeforeHead(ctx)
}

// unfitted says what failed of which head.
func unfitted(ctx context.Context, target bundle.Target, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %s: %w", ErrUnfitted, target, err)
}
