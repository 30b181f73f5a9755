package route

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/correction"
)

// Answer says what bundle a forecast came from.
type Answer struct {
	Bundle    int64
	Validated time.Time     // when a refit cycle last found it good
	MaxAge    time.Duration // how long after that it may be used; 0 means always
}

// Forecaster forecasts all candidates of one request in one call: out[i] is
// the forecast of vectors[i], or feature.NoForecast where that row can't be
// forecast. It returns when ctx is done at the latest.
//
// Errors: ErrUntrained, ErrMismatch, context.DeadlineExceeded, and anything
// else for a predictor that can't be reached.
type Forecaster interface {
	Forecast(ctx context.Context, llm string, vectors []feature.Vector, out []feature.Forecast) (Answer, error)
}

// Errors a Forecaster tells apart.
var (
	ErrUntrained = errors.New("no bundle is served for this LLM")
	ErrMismatch  = errors.New("the served bundle speaks another vector schema")
)

// Recorder takes what was decided and what came of it. Both calls return at
// once; rows that can't be kept are the recorder's to count.
type Recorder interface {
	RecordDecision(feature.Decision)
	RecordOutcome(feature.Outcome)
}

// longestForecast is the longest latency a forecast may say, in seconds.
const longestForecast = 600

// mostResidual bounds a log-residual: no prior is wrong by a factor of e^20.
const mostResidual = 20

// classify says how asking ended.
func classify(err error) (correction.Result, string) {
	switch {
	case err == nil:
		return correction.Answered, ""
	case errors.Is(err, context.DeadlineExceeded):
		return correction.Late, "forecast late"
	case errors.Is(err, ErrUntrained):
		return correction.Untrained, err.Error()
	case errors.Is(err, ErrMismatch):
		return correction.Mismatch, err.Error()
	default:
		return correction.Broken, "predictor does not answer: " + err.Error()
	}
}

// plausible reports whether an engine could keep the forecast. No forecast at
// all is plausible; half of one is not.
func plausible(f *feature.Forecast) bool {
	latencies := [4]feature.Seconds{f.TTFT.P50, f.TTFT.P90, f.TPOT.P50, f.TPOT.P90}
	residuals := [4]float64{f.Residual.TTFT.P50, f.Residual.TTFT.P90, f.Residual.TPOT.P50, f.Residual.TPOT.P90}
	unknown := 0
	for i, s := range latencies {
		switch {
		case feature.IsUnknown(s):
			unknown++
		case !(s > 0 && s <= longestForecast) || !(math.Abs(residuals[i]) <= mostResidual):
			return false
		}
	}
	return unknown == 0 || unknown == len(latencies)
}
