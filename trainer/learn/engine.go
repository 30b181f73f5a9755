package learn

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/forest"
	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// Engine grows a forest on squared error, monotone by the signs of the options,
// as gbdt.Train does. It must keep to the columns of the data; with rows to
// judge in the options it ends with the best tree.
type Engine func(context.Context, gbdt.Data, gbdt.Options) (*forest.Forest, error)

// ErrEngine marks a fit that failed because the settings' engine did. It comes
// with ErrUnfitted.
var ErrEngine = errors.New("the engine failed")

// grow fits the forest of a head to the rows that labels lists, whose vectors
// are those of binned, samples first and late after them. beyond is what the
// forest leaves of the labels in the median, to be added to whatever it says.
//
// An engine grows the p50 heads alone: engines that grow one on absolute error or
// a quantile do not keep it monotone. What squared error fits is the mean, which
// lies beside the median where errors are skewed. So the mean of all rows is left
// out of what the forest says, which damping would shorten else, and beyond makes
// up for what the median of its errors is.
func (s *Settings) grow(ctx context.Context, target bundle.Target, binned *gbdt.Binned, samples, late []Sample, labels gbdt.Labels, opts gbdt.Options) (f *forest.Forest, beyond float64, err error) {
	if s.Engine == nil || Quantiles[target] != 0.5 {
		f, err = binned.Train(ctx, labels, opts)
		return f, 0, err
	}
	mean := labelsMean(&labels)
	data := dataOf(labels.Rows, samples, late, &labels, mean)
	opts.Objective, opts.Alpha = gbdt.SquaredError, 0
	if labels.Held != nil {
		judges := dataOf(labels.Held, samples, late, &labels, mean)
		opts.Validation = &judges
	}
	if f, err = s.Engine(ctx, data, opts); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrEngine, err)
	}
	if err := f.Check(feature.Width); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrEngine, err)
	}
	left := make([]float64, len(data.Y))
	f.PredictBatch(data.X, len(left), left)
	for i, y := range data.Y {
		if x := left[i]; math.IsInf(x, 0) || math.IsNaN(x) {
			return nil, 0, fmt.Errorf("%w: its leaves add up to %g", ErrEngine, x)
		}
		left[i] = y - left[i]
	}
	return f, mean + weightedQuantile(left, data.Weights, 0.5), nil
}

// labelsMean is the weighted mean of the rows that are trained on.
func labelsMean(l *gbdt.Labels) float64 {
	var sum, weight float64
	for _, r := range l.Rows {
		sum, weight = sum+l.Weights[r]*l.Y[r], weight+l.Weights[r]
	}
	return sum / weight
}

// dataOf is the listed rows of samples and then late with their labels, less
// mean.
func dataOf(rows []int32, samples, late []Sample, labels *gbdt.Labels, mean float64) gbdt.Data {
	d := gbdt.Data{
		FeatureNames: feature.Names(), X: make([]float64, len(rows)*feature.Width),
		Y: make([]float64, len(rows)), Weights: make([]float64, len(rows)),
	}
	for k, r := range rows {
		of, at := samples, int(r)
		if at >= len(samples) {
			of, at = late, at-len(samples)
		}
		of[at].Vector.Wide(d.X[k*feature.Width : (k+1)*feature.Width])
		d.Y[k], d.Weights[k] = labels.Y[r]-mean, labels.Weights[r]
	}
	return d
}
