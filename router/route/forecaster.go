package route

import (
	"context"
	"errors"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
)

// Answer says what bundle a forecast came from.
type Answer = correction.Answer

// Forecaster forecasts all candidates of one request in one call: out[i] is
// the forecast of vectors[i], or feature.NoForecast where that row can't be
// forecast. It returns when ctx is done at the latest.
//
// Errors: ErrUntrained, ErrMismatch, ErrImplausible, context.DeadlineExceeded, and anything
// else for a predictor that can't be reached.
type Forecaster interface {
	Forecast(ctx context.Context, llm string, vectors []feature.Vector, out []feature.Forecast) (Answer, error)
}

// Errors a Forecaster tells apart.
var (
	ErrUntrained = errors.New("no bundle is served for this LLM")
	ErrMismatch  = errors.New("the served bundle speaks another vector schema")
	// ErrImplausible is an answer that no predictor in its right mind gives.
	ErrImplausible = errors.New("implausible forecast")
)

// Recorder takes what was decided and what came of it. Both calls return at
// once; rows that can't be kept are the recorder's to count.
type Recorder interface {
	RecordDecision(feature.Decision)
	RecordOutcome(feature.Outcome)
}

// classify says how asking ended, and why in words of a closed set.
func classify(err error) (correction.Result, string) {
	switch {
	case err == nil:
		return correction.Answered, ""
	case errors.Is(err, context.DeadlineExceeded):
		return correction.Late, "forecast late"
	case errors.Is(err, ErrUntrained):
		return correction.Untrained, ErrUntrained.Error()
	case errors.Is(err, ErrMismatch):
		return correction.Mismatch, ErrMismatch.Error()
	case errors.Is(err, ErrImplausible):
		return correction.Invalid, ErrImplausible.Error()
	default:
		return correction.Broken, "predictor down"
	}
}
