package predictor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Info says which bundle made a forecast.
type Info struct {
	Bundle      int64         // its version
	ValidatedAt time.Time     // when it was last found good enough to serve
	MaxAge      time.Duration // how long that lasts
}

// Errors of a forecast. Beside them it fails with context.DeadlineExceeded or
// context.Canceled.
var (
	// ErrUntrained says that no bundle is served for the LLM.
	ErrUntrained = errors.New("no bundle is served")
	// ErrSchema says that the predictor's vectors are not those of the caller.
	ErrSchema = errors.New("predictor has another schema")
	// ErrImpossible says that an answer calls a forecast what is no number.
	ErrImpossible = errors.New("predictor forecasts what is no number")
	// ErrDown says that nobody answers.
	ErrDown = errors.New("predictor is down")
)

// farOutside is the support below which a forecast is told to be outside of
// what its bundle was trained on.
const farOutside = 0.1

// rowsPerStep is how many rows are evaluated between two looks at the
// deadline: about 1 ms with forests of 200 trees x 31 leaves.
const rowsPerStep = 64

// forecast is what every call ends in, whichever way it came.
func (s *Server) forecast(ctx context.Context, llm string, vectors []feature.Vector, out []feature.Forecast) (Info, error) {
	began := time.Now()
	info, err := s.evaluate(ctx, llm, vectors, out)
	if err != nil {
		s.metrics.requests.WithLabelValues(requestStatus(err)).Inc()
		return info, err
	}
	s.metrics.answered.Inc()
	s.metrics.countRows(out[:len(vectors)])
	s.metrics.seconds.Observe(time.Since(began).Seconds())
	return info, nil
}

func (s *Server) evaluate(ctx context.Context, llm string, vectors []feature.Vector, out []feature.Forecast) (Info, error) {
	row := (*s.llms.Load())[llm]
	if row == nil {
		return Info{}, fmt.Errorf("%w for %q", ErrUntrained, llm)
	}
	if row.evaluator == nil {
		return Info{}, fmt.Errorf("%w for %q: %s", ErrUntrained, llm, row.lastError)
	}
	if err := s.queue.enter(ctx); err != nil {
		return Info{}, err
	}
	defer s.queue.leave()
	out = out[:len(vectors)]
	for len(vectors) > 0 {
		if err := ctx.Err(); err != nil {
			return Info{}, err
		}
		n := min(len(vectors), rowsPerStep)
		row.evaluator.Evaluate(vectors[:n], out[:n])
		vectors, out = vectors[n:], out[n:]
	}
	return row.info, nil
}

// requestStatus names how a call ended: labels of a metric, a closed set.
func requestStatus(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, ErrUntrained):
		return "untrained"
	case errors.Is(err, ErrSchema):
		return "schema"
	case errors.Is(err, ErrBusy):
		return "full"
	case errors.Is(err, errExpired):
		return "expired"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline"
	case errors.Is(err, context.Canceled):
		return "canceled"
	default:
		return "invalid"
	}
}
