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

const (
	// mostResidual bounds a log-residual: no prior is wrong by a factor of
	// e^20.
	mostResidual = 20
	// honestResidual is how far above its prior, in log, an answer beyond
	// longestForecast may be and still be the queue's doing: four times the
	// clip that bundles begin with.
	honestResidual = 1
)

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
	default:
		return correction.Broken, "predictor down"
	}
}

// startable reports whether a forecast can start from a prior: whether it is a
// latency that a forecast may say.
func startable(p feature.Prior) bool {
	return p.TTFT > 0 && p.TTFT <= longestForecast && p.TPOT > 0 && p.TPOT <= longestForecast
}

// verdict is what a forecast deserves.
type verdict uint8

const (
	usable  verdict = iota // also when it is no forecast at all
	tooLong                // no forecast to use, and no wonder after such a prior
	absurd                 // what no engine could keep
)

// judge judges the forecast that was made from a prior.
func judge(prior feature.Prior, f *feature.Forecast) verdict {
	worst, unknown := usable, 0
	for _, x := range [...]struct {
		latency, prior feature.Seconds
		residual       float64
	}{
		{f.TTFT.P50, prior.TTFT, f.Residual.TTFT.P50},
		{f.TTFT.P90, prior.TTFT, f.Residual.TTFT.P90},
		{f.TPOT.P50, prior.TPOT, f.Residual.TPOT.P50},
		{f.TPOT.P90, prior.TPOT, f.Residual.TPOT.P90},
	} {
		switch {
		case feature.IsUnknown(x.latency):
			unknown++
		case !(x.latency > 0) || !(math.Abs(x.residual) <= mostResidual):
			return absurd
		case x.latency <= longestForecast:
		case x.latency <= x.prior*feature.Seconds(math.Exp(honestResidual)):
			worst = tooLong
		default:
			return absurd
		}
	}
	if unknown > 0 && unknown < 4 {
		return absurd
	}
	return worst
}
