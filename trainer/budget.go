package trainer

import (
	"fmt"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer/learn"
)

const (
	budgetRows = 16 // of one forecast call: the candidates that a router asks about
	budgetRuns = 5
)

// Cost is what serving a candidate takes.
type Cost struct {
	Bytes    int            `json:"bytes"`            // encoded
	Forecast feature.Number `json:"forecast_seconds"` // of 16 candidates, the best of five calls
}

// stored is a candidate as every predictor will read it: written, read back,
// its checksum and known answers checked, and ready to forecast. What is
// judged is what is served.
func stored(candidate *bundle.Bundle) (*bundle.Bundle, *bundle.Evaluator, []byte, error) {
	written, err := bundle.Encode(candidate)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%w: %w", errUnfitted, err)
	}
	read, err := bundle.Decode(written)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%w: it can't be read back: %w", errUnfitted, err)
	}
	e, err := read.Evaluator()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%w: it does not give its known answers: %w", errUnfitted, err)
	}
	return read, e, written, nil
}

// costOf measures a candidate.
func costOf(e *bundle.Evaluator, size int, judge []sample) Cost {
	vectors := learn.Vectors(judge[:min(len(judge), budgetRows)])
	out := make([]feature.Forecast, len(vectors))
	best := time.Duration(1<<63 - 1)
	for range budgetRuns {
		began := time.Now()
		e.Evaluate(vectors, out)
		best = min(best, time.Since(began))
	}
	return Cost{size, feature.Number(best.Seconds())}
}

// judgeCost refuses a candidate that is larger or slower than a predictor
// should bear.
func (t *Trainer) judgeCost(v *Verdict) {
	if v.Cost.Bytes > t.config.MostBytes {
		v.refuse(TooLarge, fmt.Sprintf("has %d bytes, want at most %d", v.Cost.Bytes, t.config.MostBytes))
	}
	if most := t.config.MostForecast; float64(v.Cost.Forecast) > most.Seconds() {
		v.refuse(TooSlow, fmt.Sprintf("takes %.3g s for %d candidates, want at most %s", v.Cost.Forecast, budgetRows, most))
	}
}
