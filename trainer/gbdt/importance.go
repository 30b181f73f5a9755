package gbdt

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/spillway-llm/spillway/internal/forest"
)

// Gains returns for each feature how much of the training loss its splits took
// away: the sum of their gains, as LightGBM's importance of type "gain". A
// feature that no split uses has 0.
func Gains(f *forest.Forest) []float64 {
	gains := make([]float64, f.NumFeatures())
	for i := range f.Trees() {
		for _, s := range f.Tree(i).Splits {
			gains[s.Feature] += s.Gain
		}
	}
	return gains
}

// Permutations returns for each feature by how much the mean loss of the forest
// on data rises when the feature's values are dealt out anew among the rows: what
// the forest would lose without it (Breiman, "Random Forests", 2001). Rows that
// were not trained on give the honest answer; there, a feature that only fitted
// noise may come out below 0. Of the options it reads Objective, Alpha and
// Threads.
func Permutations(ctx context.Context, f *forest.Forest, data Data, opts Options, rng *rand.Rand) ([]float64, error) {
	if err := f.Check(len(data.FeatureNames)); err != nil {
		return nil, fmt.Errorf("permute: %w", err)
	}
	if err := data.check(); err != nil {
		return nil, fmt.Errorf("permute: %w", err)
	}
	if err := opts.checkLoss(); err != nil {
		return nil, fmt.Errorf("permute: %w", err)
	}
	crew := hire(opts.Threads)
	defer crew.dismiss()
	before := lossWith(crew, f, &data, &opts, -1, nil)
	rises := make([]float64, len(data.FeatureNames))
	for feature := range rises {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("permute: %w", err)
		}
		rises[feature] = lossWith(crew, f, &data, &opts, feature, rng.Perm(len(data.Y))) - before
	}
	return rises, nil
}

// lossWith is the mean weighted loss on data whose rows take one feature from
// the row that order names; a negative feature changes nothing.
func lossWith(crew *crew, f *forest.Forest, data *Data, opts *Options, feature int, order []int) float64 {
	const batch = 256
	width := len(data.FeatureNames)
	lost, weight := make([]float64, blocks(len(data.Y))), make([]float64, blocks(len(data.Y)))
	crew.each(len(lost), func(_, i int) {
		x, out := make([]float64, batch*width), make([]float64, batch)
		begin, end := block(i, len(data.Y))
		for ; begin < end; begin += batch {
			n := min(batch, end-begin)
			rows := x[:copy(x, data.X[begin*width:(begin+n)*width])]
			if feature >= 0 {
				for k := range n {
					rows[k*width+feature] = data.X[order[begin+k]*width+feature]
				}
			}
			f.PredictBatch(rows, n, out)
			for k, p := range out[:n] {
				w := 1.0
				if data.Weights != nil {
					w = data.Weights[begin+k]
				}
				lost[i] += w * opts.of(data.Y[begin+k]-p)
				weight[i] += w
			}
		}
	})
	return sum(lost) / sum(weight)
}
