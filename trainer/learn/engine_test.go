package learn_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/forest"
	"github.com/spillway-llm/spillway/trainer/gbdt"
	"github.com/spillway-llm/spillway/trainer/learn"
)

// TestAnEngineGrowsTheMedians: on skewed errors too, although it fits means, and
// about as well as heads that are fitted to the median.
func TestAnEngineGrowsTheMedians(t *testing.T) {
	samples := world(t, 5, 1000, steady, crooked)
	rng := rand.New(rand.NewPCG(5, 2))
	for i := range samples {
		samples[i].TTFT += 0.3 * rng.ExpFloat64()
		samples[i].TPOT += 0.3 * rng.ExpFloat64()
	}
	past, later := samples[:600], samples[600:]
	runs := 0
	settings := quick()
	settings.Engine = func(ctx context.Context, d gbdt.Data, o gbdt.Options) (*forest.Forest, error) {
		runs++
		if o.Objective != gbdt.SquaredError || len(o.MonotoneSigns) != feature.Width || len(d.Weights) != len(d.Y) {
			t.Errorf("asked for objective %d with %d signs and %d weights", o.Objective, len(o.MonotoneSigns), len(d.Weights))
		}
		if (o.Validation == nil) != (o.EarlyStoppingRounds == 0) {
			t.Errorf("%d rounds without gain, judges %v", o.EarlyStoppingRounds, o.Validation != nil)
		}
		return gbdt.Train(ctx, d, o)
	}
	b, err := learn.Fit(t.Context(), learn.Task{LLM: "qwen", At: began, Samples: past, Learned: all}, settings)
	if err != nil {
		t.Fatal(err)
	}
	if runs != 14 { // of both latencies: two forms in three folds, and all rows
		t.Errorf("the engine ran %d times, want 14", runs)
	}
	for target, objective := range [bundle.Targets]string{"regression", "quantile", "regression", "quantile"} {
		f, err := forest.Parse(b.Heads[target].Forest)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Header().Objective; got != objective {
			t.Errorf("%s is grown for %q, want %q", bundle.Target(target), got, objective)
		}
	}
	own := fitted(t, past)
	for _, c := range []struct {
		target bundle.Target
		of     func(*feature.Forecast) float64
	}{
		{bundle.TTFTP50, func(f *feature.Forecast) float64 { return f.Residual.TTFT.P50 }},
		{bundle.TPOTP50, func(f *feature.Forecast) float64 { return f.Residual.TPOT.P50 }},
	} {
		engines, below := absoluteLoss(t, b, later, c.target, c.of)
		ours, oursBelow := absoluteLoss(t, own, later, c.target, c.of)
		if engines > 1.05*ours {
			t.Errorf("%s: loss %.4f with the engine, %.4f without", c.target, engines, ours)
		}
		if math.Abs(below-oursBelow) > 0.05 { // the mean has 0.63 of such errors below it
			t.Errorf("%s: %.2f of later rows lie below it, and %.2f without the engine", c.target, below, oursBelow)
		}
	}
}

// absoluteLoss is the mean distance of later rows from the forecasts of a
// bundle, and the share that lies below them.
func absoluteLoss(t *testing.T, b *bundle.Bundle, later []learn.Sample, target bundle.Target, of func(*feature.Forecast) float64) (loss, below float64) {
	t.Helper()
	e, err := b.Evaluator()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]feature.Forecast, len(later))
	e.Evaluate(learn.Vectors(later), out)
	for i := range out {
		left := later[i].Label(target) - of(&out[i])
		loss += math.Abs(left) / float64(len(out))
		if left < 0 {
			below += 1 / float64(len(out))
		}
	}
	return loss, below
}

func TestAnEngineThatFailsIsNamed(t *testing.T) {
	samples := world(t, 5, 300, steady, crooked)
	broken := errors.New("no license")
	narrow, err := forest.New(forest.Header{FeatureNames: []string{"one"}}, []forest.Tree{{Leaves: []forest.Leaf{{}}}})
	if err != nil {
		t.Fatal(err)
	}
	endless := func(_ context.Context, d gbdt.Data, _ gbdt.Options) (*forest.Forest, error) {
		tree := forest.Tree{Leaves: []forest.Leaf{{Value: math.MaxFloat64}}}
		return forest.New(forest.Header{FeatureNames: d.FeatureNames}, []forest.Tree{tree, tree})
	}
	for _, engine := range []learn.Engine{
		endless,
		func(context.Context, gbdt.Data, gbdt.Options) (*forest.Forest, error) { return nil, broken },
		func(context.Context, gbdt.Data, gbdt.Options) (*forest.Forest, error) { return narrow, nil },
	} {
		settings := quick()
		settings.Engine = engine
		_, err := learn.Fit(t.Context(), learn.Task{LLM: "qwen", At: began, Samples: samples, Learned: all}, settings)
		if !errors.Is(err, learn.ErrEngine) || !errors.Is(err, learn.ErrUnfitted) {
			t.Errorf("error %v, want that of the engine", err)
		}
	}
}
