package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer/baseline"
	"github.com/spillway-llm/spillway/trainer/gbdt"
	"github.com/spillway-llm/spillway/trainer/learn"
)

// contender forecasts samples, having seen others.
type contender struct {
	name     string
	forecast func(judge []learn.Sample) []feature.Forecast
}

// contend fits all that are compared to the same samples. The bundle is that
// of the last one.
func contend(ctx context.Context, samples []learn.Sample, seed uint64) ([]contender, *bundle.Bundle, error) {
	settings := learn.Defaults()
	settings.Seed = seed
	b, err := learn.Fit(ctx, learn.Task{
		LLM: "measured", At: samples[len(samples)-1].Decided, Samples: samples, Learned: [bundle.Targets]bool{true, true, true, true},
	}, settings)
	if err != nil {
		return nil, nil, err
	}
	e, err := b.Evaluator()
	if err != nil {
		return nil, nil, err
	}
	trees, err := treesAlone(ctx, samples, settings)
	if err != nil {
		return nil, nil, err
	}
	cart, err := cart(samples, seed)
	if err != nil {
		return nil, nil, err
	}
	return []contender{
		{"prior alone", priorAlone(b, samples)},
		{"trees alone", trees},
		{"golearn CART", cart},
		{"ours", func(judge []learn.Sample) []feature.Forecast {
			out := make([]feature.Forecast, len(judge))
			e.Evaluate(learn.Vectors(judge), out)
			return out
		}},
	}, b, nil
}

// priorAlone is the fitted prior of a bundle. Its p90 is moved by the p90 of its
// error on what it was fitted to.
func priorAlone(b *bundle.Bundle, samples []learn.Sample) func([]learn.Sample) []feature.Forecast {
	estimate := func(s *learn.Sample) [2]float64 {
		p := b.Fitted.Estimate(&s.Vector)
		return [2]float64{float64(p.TTFT), float64(p.TPOT)}
	}
	return shifted(samples, estimate)
}

// shifted forecasts with an estimate and, for the p90, with the p90 of its
// error on the samples.
func shifted(samples []learn.Sample, estimate func(*learn.Sample) [2]float64) func([]learn.Sample) []feature.Forecast {
	var shift [2]float64
	for k := range shift {
		var errors []float64
		for i := range samples {
			if actual := latencies(&samples[i])[k]; actual == actual {
				errors = append(errors, math.Log(actual/estimate(&samples[i])[k]))
			}
		}
		slices.Sort(errors)
		shift[k] = max(0, evaluate.Quantile(errors, 0.9))
	}
	return func(judge []learn.Sample) []feature.Forecast {
		out := make([]feature.Forecast, len(judge))
		for i := range judge {
			x := estimate(&judge[i])
			out[i] = feature.Forecast{TTFT: quantiles(x[0], x[0]*math.Exp(shift[0])), TPOT: quantiles(x[1], x[1]*math.Exp(shift[1]))}
		}
		return out
	}
}

func quantiles(p50, p90 float64) feature.Quantiles {
	return feature.Quantiles{P50: feature.Seconds(p50), P90: feature.Seconds(max(p50, p90))}
}

// latencies are the measured TTFT and TPOT of a sample in seconds; NaN when it
// has none.
func latencies(s *learn.Sample) [2]float64 {
	p := s.Vector.Prior()
	return [2]float64{float64(p.TTFT) * math.Exp(s.TTFT), float64(p.TPOT) * math.Exp(s.TPOT)}
}

// treesAlone fits forests of the settings' size to the logarithm of the latency
// itself, with neither a prior nor signs to hold them.
func treesAlone(ctx context.Context, samples []learn.Sample, settings learn.Settings) (func([]learn.Sample) []feature.Forecast, error) {
	var forests [bundle.Targets]bundle.Forest
	for target := range bundle.Targets {
		x, y := plain(samples, int(target)/2)
		opts := settings.Forest
		opts.Objective, opts.Alpha, opts.Seed = gbdt.Quantile, learn.Quantiles[target], settings.Seed+uint64(target)
		f, err := gbdt.Train(ctx, gbdt.Data{FeatureNames: feature.Names(), X: x, Y: y}, opts)
		if err != nil {
			return nil, fmt.Errorf("trees alone, %s: %w", target, err)
		}
		forests[target] = f
	}
	return func(judge []learn.Sample) []feature.Forecast {
		out := make([]feature.Forecast, len(judge))
		var log [bundle.Targets][1]float64
		for i := range judge {
			row := columns(&judge[i])
			for target, f := range forests {
				f.PredictBatch(row, 1, log[target][:])
			}
			out[i] = feature.Forecast{
				TTFT: quantiles(math.Exp(log[bundle.TTFTP50][0]), math.Exp(log[bundle.TTFTP90][0])),
				TPOT: quantiles(math.Exp(log[bundle.TPOTP50][0]), math.Exp(log[bundle.TPOTP90][0])),
			}
		}
		return out
	}, nil
}

// cart fits golearn's regression tree to the same.
func cart(samples []learn.Sample, seed uint64) (func([]learn.Sample) []feature.Forecast, error) {
	var trees [2]*baseline.Tree
	for k := range trees {
		x, y := plain(samples, k)
		t, err := baseline.Fit(x, feature.Width, y, seed)
		if err != nil {
			return nil, err
		}
		trees[k] = t
	}
	return shifted(samples, func(s *learn.Sample) [2]float64 {
		row := columns(s)
		return [2]float64{math.Exp(trees[0].Predict(row)), math.Exp(trees[1].Predict(row))}
	}), nil
}

// plain are the rows with a latency: their columns and its logarithm.
func plain(samples []learn.Sample, latency int) (x, y []float64) {
	for i := range samples {
		if actual := latencies(&samples[i])[latency]; actual == actual {
			x, y = append(x, columns(&samples[i])...), append(y, math.Log(actual))
		}
	}
	return x, y
}

// columns is the vector of a sample without the priors.
func columns(s *learn.Sample) []float64 {
	row := make([]float64, feature.Width)
	s.Vector.Wide(row)
	row[feature.ColumnPriorTTFT], row[feature.ColumnPriorTPOT] = feature.Unknown, feature.Unknown
	return row
}
