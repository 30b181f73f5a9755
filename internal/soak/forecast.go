package main

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/route"
)

// moody is a predictor that mostly says what the prior says, and sometimes
// nothing, too late, or what cannot be.
type moody struct{}

var errMood = errors.New("the predictor is in no mood")

func (moody) Forecast(ctx context.Context, _ string, vectors []feature.Vector, out []feature.Forecast) (route.Answer, error) {
	switch mood := rand.IntN(1000); {
	case mood < 5:
		<-ctx.Done()
		return route.Answer{}, ctx.Err()
	case mood < 10:
		return route.Answer{}, errMood
	case mood < 12:
		for i := range out {
			out[i] = feature.NoForecast
		}
	default:
		for i := range vectors {
			out[i] = near(vectors[i].Prior(), 0.1*rand.NormFloat64())
		}
		if mood == 12 {
			out[0].TTFT.P50 = feature.Seconds(math.NaN())
		}
	}
	return route.Answer{Bundle: 1, Validated: time.Now()}, nil
}

// near is a forecast that departs from its prior by a residual.
func near(p feature.Prior, residual float64) (f feature.Forecast) {
	const spread = 0.3 // of the logarithm, from p50 to p90
	of := func(prior feature.Seconds) (feature.Quantiles, feature.LogQuantiles) {
		r := feature.LogQuantiles{P50: residual, P90: residual + spread}
		return feature.Quantiles{P50: prior * feature.Seconds(math.Exp(r.P50)), P90: prior * feature.Seconds(math.Exp(r.P90))}, r
	}
	f.Support = 1
	f.TTFT, f.Residual.TTFT = of(p.TTFT)
	f.TPOT, f.Residual.TPOT = of(p.TPOT)
	return f
}
