// Package gbdt fits gradient-boosted regression trees: histograms of at most
// 255 bins and one for missing values, grown leaf by leaf, for squared error
// or one quantile, optionally monotone in chosen features.
//
// The method is that of Ke et al., "LightGBM: A Highly Efficient Gradient
// Boosting Decision Tree" (NeurIPS 2017), with leaf renewal for quantiles; the
// result is written as LightGBM text by package forest.
//
// Same data, options and seed give the same bytes with any number of threads:
// work is shared out by feature or by leaf, never by splitting one sum.
package gbdt

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/spillway-llm/spillway/internal/forest"
)

// Train fits a forest. It fails on data or options that do not hold what they
// promise, and returns the context's error soon after the context ends.
//
// The first tree carries the mean (or quantile) of the target, so that the
// forest's raw sum is the prediction. Data too few or too plain to split give
// one tree of one leaf.
func Train(ctx context.Context, data Data, opts Options) (*forest.Forest, error) {
	if err := opts.check(data.FeatureNames); err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	if err := data.check(); err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	b, err := newBooster(ctx, data, opts)
	if err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	if err := b.run(ctx); err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	f, err := forest.New(b.header(), b.trees)
	if err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	return f, nil
}

// booster is one run of Train.
type booster struct {
	data    Data
	opts    Options
	columns []column
	initial float64 // prediction before the first tree
	score   []float64
	grad    []float64 // of the loss by score, weighted
	grower  *grower
	stopper *stopper // nil without validation
	trees   []forest.Tree
}

func newBooster(ctx context.Context, data Data, opts Options) (*booster, error) {
	columns, err := binColumns(ctx, data, opts)
	if err != nil {
		return nil, err
	}
	b := &booster{
		data: data, opts: opts, columns: columns,
		initial: opts.constant(data.Y, data.Weights),
		score:   make([]float64, len(data.Y)),
		grad:    make([]float64, len(data.Y)),
	}
	for i := range b.score {
		b.score[i] = b.initial
	}
	b.grower = newGrower(b)
	if opts.Validation != nil {
		b.stopper = newStopper(b)
	}
	return b, nil
}

func (b *booster) run(ctx context.Context) error {
	for round := range b.opts.Trees {
		rng := rand.New(rand.NewPCG(b.opts.Seed, uint64(round)+1))
		rows, all := b.sampleRows(rng)
		features := b.sampleFeatures(rng)
		b.gradients()
		tree, err := b.grower.grow(ctx, rows, features)
		if err != nil {
			return err
		}
		if len(tree.splits) == 0 {
			if all && len(features) == len(b.columns) {
				break // no later tree can find more
			}
			continue
		}
		b.addToScore(tree, all)
		b.trees = append(b.trees, tree.publish(b.columns, b.opts.LearningRate))
		if b.stopper != nil && b.stopper.worn(tree, len(b.trees)) {
			break
		}
	}
	if b.stopper != nil {
		b.trees = b.trees[:b.stopper.best]
	}
	if len(b.trees) == 0 {
		b.trees = []forest.Tree{{Leaves: []forest.Leaf{{Count: int64(len(b.data.Y))}}}}
	}
	b.trees[0] = shifted(b.trees[0], b.initial)
	return nil
}

// gradients fills grad with the derivative of the weighted loss at the score.
// The hessian is the weight for either objective.
func (b *booster) gradients() {
	alpha := b.opts.Alpha
	for i, y := range b.data.Y {
		switch {
		case b.opts.Objective == SquaredError:
			b.grad[i] = b.score[i] - y
		case b.score[i] > y:
			b.grad[i] = 1 - alpha
		default:
			b.grad[i] = -alpha
		}
	}
	for i, w := range b.data.Weights {
		b.grad[i] *= w
	}
}

// sampleRows returns the rows of one tree in ascending order, and whether
// these are all.
func (b *booster) sampleRows(rng *rand.Rand) (rows []int32, all bool) {
	n := len(b.data.Y)
	rows = b.grower.rows[:0]
	want := max(1, int(math.Round(b.opts.RowFraction*float64(n))))
	for i := range n {
		// Selection sampling: row i is kept with the share still wanted.
		if want-len(rows) == n-i || rng.IntN(n-i) < want-len(rows) {
			rows = append(rows, int32(i))
		}
	}
	return rows, want == n
}

// sampleFeatures returns the features of one tree in ascending order.
func (b *booster) sampleFeatures(rng *rand.Rand) []int {
	n := len(b.columns)
	want := max(1, int(math.Round(b.opts.FeatureFraction*float64(n))))
	features := make([]int, 0, want)
	for i := range n {
		if want-len(features) == n-i || rng.IntN(n-i) < want-len(features) {
			features = append(features, i)
		}
	}
	return features
}

// addToScore adds the tree to the score of every row. Rows it grew on stand
// in its leaves already; others walk.
func (b *booster) addToScore(t *grownTree, all bool) {
	if !all {
		for i := range b.score {
			b.score[i] += b.opts.LearningRate * t.leaves[t.walk(b.columns, i)].value
		}
		return
	}
	rows := b.grower.rows
	parallel(b.opts.Threads, len(t.leaves), func(_, i int) {
		leaf := &t.leaves[i]
		step := b.opts.LearningRate * leaf.value
		for _, r := range rows[leaf.begin:leaf.end] {
			b.score[r] += step
		}
	})
}

func (b *booster) header() forest.Header {
	h := forest.Header{
		Objective:           "regression",
		FeatureNames:        b.data.FeatureNames,
		MonotoneConstraints: b.opts.MonotoneSigns,
	}
	if b.opts.Objective == Quantile {
		h.Objective = "quantile"
		h.Metadata = map[string]string{"alpha": strconv.FormatFloat(b.opts.Alpha, 'g', -1, 64)}
	}
	for i := range b.columns {
		h.Ranges = append(h.Ranges, b.columns[i].extent)
	}
	return h
}

// shifted adds x to every value of a tree.
func shifted(t forest.Tree, x float64) forest.Tree {
	for i := range t.Leaves {
		t.Leaves[i].Value += x
	}
	for i := range t.Splits {
		t.Splits[i].Value += x
	}
	return t
}
