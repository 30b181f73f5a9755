package learn

import (
	"context"
	"time"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/physics/fit"
	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// era is samples in order of decision with a prior fitted to them.
type era struct {
	samples []Sample
	weights []float64
	fitted  physics.Fitted
}

// cut is samples up to a moment, and those that came next.
type cut struct {
	early, late []Sample
	binned      *gbdt.Binned // the vectors of both, by the bins of the early ones
}

// cuts of the samples at several moments.
func cuts(ctx context.Context, samples []Sample, opts gbdt.Options) ([]cut, error) {
	part := len(samples) / (judgedParts + learnedParts)
	if part == 0 {
		return nil, nil
	}
	x := wide(samples)
	out := make([]cut, judgedParts)
	for i := range out {
		at := len(samples) - (judgedParts-i)*part
		until := at + part
		early, err := gbdt.Bin(ctx, feature.Names(), x[:at*feature.Width], opts)
		if err != nil {
			return nil, err
		}
		both, err := early.With(ctx, x[at*feature.Width:until*feature.Width], opts)
		if err != nil {
			return nil, err
		}
		out[i] = cut{samples[:at], samples[at:until], both}
	}
	return out, nil
}

// fold is what was learned up to a moment, and the samples after it that judge
// that.
type fold struct {
	early  era
	late   []Sample
	binned *gbdt.Binned // of both
}

// folds fits priors of the given forms to what came before each cut.
func folds(all []cut, forms fit.Forms, halfLife time.Duration) []fold {
	out := make([]fold, len(all))
	for i, c := range all {
		out[i] = fold{early: eraOf(c.early, forms, halfLife), late: c.late, binned: c.binned}
	}
	return out
}

// eraOf fits a prior of the given forms to samples. Where they do not describe
// an engine, that of the vector stands.
func eraOf(samples []Sample, forms fit.Forms, halfLife time.Duration) era {
	e := era{samples: samples, weights: weights(samples, halfLife)}
	if fitted, err := fit.Vectors(seen(samples, e.weights), forms); err == nil {
		e.fitted = fitted
	}
	return e
}

// gains reports whether ratios of losses are a gain: by leastGain in the mean,
// and none a loss.
func gains(ratios []float64) bool {
	for _, r := range ratios {
		if !(r <= 1) {
			return false
		}
	}
	return evaluate.Mean(ratios) < 1-leastGain
}
