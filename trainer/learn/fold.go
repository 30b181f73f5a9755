package learn

import (
	"time"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/physics/fit"
)

// era is samples in order of decision with a prior fitted to them.
type era struct {
	samples []Sample
	weights []float64
	fitted  physics.Fitted
}

// fold is an era, and the samples after it that judge what was learned in it.
type fold struct {
	early era
	late  []Sample
}

// folds cuts samples into what was learned up to a moment and what came next,
// at several moments.
func folds(samples []Sample, forms fit.Forms, halfLife time.Duration) []fold {
	part := len(samples) / (judgedParts + learnedParts)
	if part == 0 {
		return nil
	}
	out := make([]fold, judgedParts)
	for i := range out {
		at := len(samples) - (judgedParts-i)*part
		out[i] = fold{early: eraOf(samples[:at], forms, halfLife), late: samples[at : at+part]}
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
