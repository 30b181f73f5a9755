package predictortest_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/predictor"
	"github.com/spillway-llm/spillway/predictor/predictortest"
)

// What is said reaches whoever asks as predictors are asked, over a socket that
// another one left.
func TestTheClientHearsWhatIsSaid(t *testing.T) {
	addr := "unix://" + t.TempDir() + "/p.sock"
	said := predictortest.Answer{Bundle: 7, Validated: time.Unix(1_800_000_000, 0), MaxAge: time.Minute,
		Forecasts: []predictortest.Forecast{{TTFT: feature.Quantiles{P50: 1, P90: 2}, TPOT: feature.Quantiles{P50: 0.1, P90: feature.Seconds(math.NaN())}}}}
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- predictortest.Serve(ctx, addr, func(llm string, vectors []feature.Vector) predictortest.Answer {
				if llm != "an LLM" || len(vectors) != 1 || vectors[0].Prior().TTFT != 0.5 {
					t.Errorf("asked for %s, %v", llm, vectors)
				}
				return said
			})
		}()
		client, err := predictor.Dial(addr) // one of the first round may not know yet that this one has ended
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		within, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		if err := client.Ready(within); err != nil {
			t.Fatal(err)
		}
		out := make([]feature.Forecast, 1)
		vector := feature.Of(feature.Request{PromptTokens: 10}, feature.Load{}, feature.Prior{TTFT: 0.5, TPOT: 0.05})
		info, err := client.Forecast(within, "an LLM", []feature.Vector{vector}, out)
		if err != nil || info.Bundle != 7 || !info.ValidatedAt.Equal(said.Validated) || info.MaxAge != time.Minute {
			t.Errorf("%+v, %v", info, err)
		}
		if f := out[0]; f.TTFT != said.Forecasts[0].TTFT || f.TPOT.P50 != 0.1 || !math.IsNaN(float64(f.TPOT.P90)) || math.Abs(f.Residual.TTFT.P50-math.Log(2)) > 1e-6 {
			t.Errorf("forecast %+v", f)
		}
		said.Forecasts[0].TTFT.P50 = feature.Seconds(math.NaN())
		if _, err := client.Forecast(within, "an LLM", []feature.Vector{vector}, out); !errors.Is(err, predictor.ErrImpossible) {
			t.Errorf("no number: %v, want ErrImpossible", err)
		}
		said.Forecasts[0].TTFT.P50 = 1
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
}
