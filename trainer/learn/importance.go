package learn

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/forest"
	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// Importance is how much a head's forest goes by one feature, beyond the prior.
type Importance struct {
	Feature string `json:"feature"`
	// Gain is the share of the loss taken away in training that is its splits',
	// in (0, 1].
	Gain float64 `json:"gain"`
	// Rise is by how much the pinball loss of the forest on later rows, in
	// ln(actual/forecast), is higher when the feature's values are dealt out anew
	// among them. Below 0 the forest would do better without.
	Rise float64 `json:"rise"`
}

// importanceMost is how many rows importances are found from at most, and
// importanceTop how many features are listed.
const (
	importanceMost = 2000
	importanceTop  = 10
)

// Importances lists the features that the forest of each head goes by most,
// judged on samples it has not seen, the most important first. A head whose
// forest is left out, and one that no sample has the target of, has none.
func Importances(ctx context.Context, b *bundle.Bundle, judge []Sample, seed uint64) (out [bundle.Targets][]Importance, err error) {
	judge = thinned(judge, importanceMost)
	x := wide(judge)
	for target := range bundle.Targets {
		if out[target], err = importances(ctx, b, target, judge, x, seed); err != nil {
			return out, fmt.Errorf("importances of %s: %w", target, err)
		}
	}
	return out, nil
}

// importances are those of one head, with the vectors of the samples.
func importances(ctx context.Context, b *bundle.Bundle, target bundle.Target, judge []Sample, x []float64, seed uint64) ([]Importance, error) {
	head := &b.Heads[target]
	data := gbdt.Data{FeatureNames: feature.Names()}
	t := tableOver(target, judge, nil, &b.Fitted)
	if head.Damping == 1 || t.rows() == 0 {
		return nil, nil
	}
	for k, i := range t.at {
		data.X = append(data.X, x[i*feature.Width:(i+1)*feature.Width]...)
		data.Y = append(data.Y, t.y[k]-head.Shift)
	}
	f, err := forest.Parse(head.Forest)
	if err != nil {
		return nil, err
	}
	opts := gbdt.Options{Objective: gbdt.Quantile, Alpha: Quantiles[target], Threads: 1}
	rises, err := gbdt.Permutations(ctx, f, data, opts, rand.New(rand.NewPCG(seed, uint64(target))))
	if err != nil {
		return nil, err
	}
	gains, total := gbdt.Gains(f), 0.0
	for _, g := range gains {
		total += g
	}
	var all []Importance
	for j, g := range gains {
		if g > 0 {
			all = append(all, Importance{data.FeatureNames[j], g / total, rises[j]})
		}
	}
	slices.SortStableFunc(all, func(a, b Importance) int {
		return cmp.Or(cmp.Compare(b.Rise, a.Rise), cmp.Compare(b.Gain, a.Gain))
	})
	return all[:min(importanceTop, len(all))], nil
}
