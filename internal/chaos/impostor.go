package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/predictor/predictortest"
)

// The kinds of garbage.
const (
	timesTen  = "times-ten" // ten times the prior
	constant  = "constant"  // the same of everything
	reversed  = "reversed"  // the longer it would take, the shorter it is said to
	notNumber = "nan"
)

// garbage makes a p50 of a prior, in seconds; middle is a latency that is usual.
var garbage = map[string]func(prior, middle feature.Seconds) feature.Seconds{
	timesTen:  func(prior, _ feature.Seconds) feature.Seconds { return 10 * prior },
	constant:  func(_, middle feature.Seconds) feature.Seconds { return 4 * middle },
	reversed:  func(prior, middle feature.Seconds) feature.Seconds { return 4 * middle * middle / prior },
	notNumber: func(_, _ feature.Seconds) feature.Seconds { return feature.Seconds(math.NaN()) },
}

// What is usual here.
const (
	usualTTFT feature.Seconds = 0.1
	usualTPOT feature.Seconds = 0.01
)

// impostor is a predictor in a process of its own that answers garbage in time,
// in the name of a bundle that was validated just now.
type impostor struct {
	garbage string
	address string
	bundle  int64
}

func (i *impostor) run(ctx context.Context) error {
	of, ok := garbage[i.garbage]
	if !ok {
		return fmt.Errorf("--impostor: there is no %q", i.garbage)
	}
	return predictortest.Serve(ctx, i.address, func(_ string, vectors []feature.Vector) predictortest.Answer {
		return i.answer(of, vectors, time.Now())
	})
}

func (i *impostor) answer(of func(prior, middle feature.Seconds) feature.Seconds, vectors []feature.Vector, now time.Time) predictortest.Answer {
	a := predictortest.Answer{Bundle: i.bundle, Validated: now, MaxAge: time.Hour}
	around := func(p50 feature.Seconds) feature.Quantiles { return feature.Quantiles{P50: p50, P90: 1.5 * p50} }
	for _, v := range vectors {
		prior := v.Prior()
		a.Forecasts = append(a.Forecasts, predictortest.Forecast{TTFT: around(of(prior.TTFT, usualTTFT)), TPOT: around(of(prior.TPOT, usualTPOT))})
	}
	return a
}

// socket is the path of a Unix socket's address.
func socket(address string) string { return strings.TrimPrefix(address, "unix://") }
