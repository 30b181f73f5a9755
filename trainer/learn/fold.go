package learn

import (
	"context"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
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

// fold is what was learned up to a moment, and the samples after it that judge
// that; both less the effects of their endpoints, as they were known then.
type fold struct {
	early  era
	late   []Sample
	asIs   []Sample     // the late ones, with the effects
	binned *gbdt.Binned // the vectors of both, by the bins of the early ones
}

// foldsOf cuts samples at several moments. The priors of the first result are
// the analytic one times a number, those of the second sums of terms.
func foldsOf(ctx context.Context, samples []Sample, settings *Settings) (plain, rich []fold, err error) {
	part := len(samples) / (judgedParts + learnedParts)
	if part == 0 {
		return nil, nil, nil
	}
	x, opts := wide(samples), settings.options(bundle.TTFTP50)
	for i := range judgedParts {
		at := len(samples) - (judgedParts-i)*part
		until := at + part
		binned, err := gbdt.Bin(ctx, feature.Names(), x[:at*feature.Width], opts)
		if err != nil {
			return nil, nil, err
		}
		if binned, err = binned.With(ctx, x[at*feature.Width:until*feature.Width], opts); err != nil {
			return nil, nil, err
		}
		early, effects := levelled(samples[:at], settings.HalfLife)
		late := effects.without(samples[at:until])
		of := func(form fit.Form) fold {
			return fold{eraOf(early, fit.Forms{TTFT: form, TPOT: form}, settings.HalfLife), late, samples[at:until], binned}
		}
		plain, rich = append(plain, of(fit.Scaled)), append(rich, of(fit.Full))
	}
	return plain, rich, nil
}

// levelled is samples less the effects of their endpoints, beyond the best
// prior.
func levelled(samples []Sample, halfLife time.Duration) ([]Sample, effects) {
	if alone(samples) {
		return samples, effects{}
	}
	e := eraOf(samples, fit.Forms{TTFT: fit.Full, TPOT: fit.Full}, halfLife)
	own := effectsOf(samples, e.weights, &e.fitted)
	return own.without(samples), own
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
