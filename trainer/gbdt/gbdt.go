// Package gbdt fits gradient-boosted regression trees: histograms of at most
// 255 bins and one for missing values, grown leaf by leaf, for squared error,
// absolute error or one quantile, optionally monotone in chosen features.
//
// The method is that of Ke et al., "LightGBM: A Highly Efficient Gradient
// Boosting Decision Tree" (NeurIPS 2017), with leaf renewal for quantiles; the
// result is written as LightGBM text by package forest.
//
// Same data, options and seed give the same bytes with any number of threads:
// gradients are summed as whole numbers, which no order of adding can change,
// and other sums are of parts whose size is fixed.
package gbdt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/spillway-llm/spillway/internal/forest"
)

// Train fits a forest. It fails on data or options that do not hold what they
// promise, and returns the context's error soon after the context ends.
//
// The first tree carries the mean (or quantile) of the target, so that the
// forest's raw sum is the prediction. Data too few or too plain to split give
// one tree of one leaf.
//
// Where several forests are fitted to the same rows, Bin once and call
// [Binned.Train] for each.
func Train(ctx context.Context, data Data, opts Options) (*forest.Forest, error) {
	f, err := train(ctx, data, opts)
	if err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	return f, nil
}

func train(ctx context.Context, data Data, opts Options) (*forest.Forest, error) {
	if err := opts.check(data.FeatureNames); err != nil {
		return nil, err
	}
	if err := data.check(); err != nil {
		return nil, err
	}
	crew := hire(opts.Threads)
	defer crew.dismiss()
	binned, err := bin(ctx, crew, data.FeatureNames, data.X, &opts)
	if err != nil {
		return nil, err
	}
	b := newBooster(crew, binned, Labels{Y: data.Y, Weights: data.Weights}, opts)
	if v := opts.Validation; v != nil {
		judged, err := binned.like(ctx, crew, v.X)
		if err != nil {
			return nil, fmt.Errorf("validation: %w", err)
		}
		b.stopper = newStopper(b, judged, Labels{Y: v.Y, Weights: v.Weights}, appendRows(nil, len(v.Y)))
	}
	return b.run(ctx)
}

// Train is as the function of that name, over rows that have been binned;
// of the options, Bins has been used and Validation must be nil: rows to judge
// are Labels.Held.
func (b *Binned) Train(ctx context.Context, labels Labels, opts Options) (*forest.Forest, error) {
	f, err := b.train(ctx, labels, opts)
	if err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	return f, nil
}

func (b *Binned) train(ctx context.Context, labels Labels, opts Options) (*forest.Forest, error) {
	if opts.Validation != nil {
		return nil, errors.New("option Validation beside binned rows: list the rows in Labels.Held")
	}
	if (labels.Held == nil) != (opts.EarlyStoppingRounds == 0) {
		return nil, fmt.Errorf("option EarlyStoppingRounds is %d with %d held rows, want both or none", opts.EarlyStoppingRounds, len(labels.Held))
	}
	rounds := opts.EarlyStoppingRounds
	opts.EarlyStoppingRounds = 0 // judged above
	if err := opts.check(b.names); err != nil {
		return nil, err
	}
	opts.EarlyStoppingRounds = rounds
	if err := labels.check(b.Rows()); err != nil {
		return nil, err
	}
	crew := hire(opts.Threads)
	defer crew.dismiss()
	run := newBooster(crew, b, labels, opts)
	if labels.Held != nil {
		run.stopper = newStopper(run, b, labels, labels.Held)
	}
	return run.run(ctx)
}

// booster is one run of Train.
type booster struct {
	crew       *crew
	binned     *Binned
	labels     Labels
	opts       Options
	mostWeight float64  // of a row
	initial    float64  // prediction before the first tree; 0 with Start
	words      []uint64 // by row: gradients, then by place in grower.rows: residuals
	score      []float64
	grower     *grower
	renewer    *renewer // nil where leaves keep their Newton step
	stopper    *stopper // nil without rows to judge
	trees      []forest.Tree
}

func newBooster(crew *crew, binned *Binned, labels Labels, opts Options) *booster {
	n := binned.Rows()
	b := &booster{crew: crew, binned: binned, labels: labels, opts: opts, words: make([]uint64, n), score: make([]float64, n)}
	b.grower = newGrower(b)
	rows := b.allRows()
	if labels.Weights != nil {
		for _, r := range rows {
			b.mostWeight = max(b.mostWeight, labels.Weights[r])
		}
	}
	if opts.Start != nil {
		predictRows(crew, opts.Start, binned, rows, func(k int, p float64) { b.score[rows[k]] = p })
	} else {
		b.initial = b.constant(rows)
		for _, r := range rows {
			b.score[r] = b.initial
		}
	}
	if opts.pinball() {
		b.renewer = newRenewer(b)
	}
	return b
}

// allRows returns the rows to train on in the grower's memory.
func (b *booster) allRows() []int32 {
	if b.labels.Rows != nil {
		return append(b.grower.rows[:0], b.labels.Rows...)
	}
	return appendRows(b.grower.rows[:0], b.binned.Rows())
}

// appendRows appends the rows from 0 to n-1.
func appendRows(rows []int32, n int) []int32 {
	for r := range n {
		rows = append(rows, int32(r))
	}
	return rows
}

func (b *booster) run(ctx context.Context) (*forest.Forest, error) {
	for round := range b.opts.Trees {
		rng := rand.New(rand.NewPCG(b.opts.Seed, uint64(round)+1))
		rows, all := b.sampleRows(rng)
		features := b.sampleFeatures(rng)
		b.grower.fixed = b.gradients(rows)
		tree, err := b.grower.grow(ctx, rows, features, b.renewer == nil)
		if err != nil {
			return nil, err
		}
		if len(tree.splits) == 0 {
			if all && len(features) == len(b.binned.columns) {
				break // no later tree can find more
			}
			continue
		}
		if b.renewer != nil {
			b.renewer.renew(tree)
		}
		b.addToScore(tree, all)
		b.trees = append(b.trees, tree.publish(b.binned.columns, &b.grower.fixed, b.opts.LearningRate))
		if b.stopper != nil && b.stopper.worn(tree, len(b.trees)) {
			break
		}
	}
	if b.stopper != nil {
		b.trees = b.trees[:b.stopper.best]
	}
	return b.forest()
}

// sampleRows returns the rows of one tree in ascending order, and whether
// these are all.
func (b *booster) sampleRows(rng *rand.Rand) (rows []int32, all bool) {
	rows = b.allRows()
	n := len(rows)
	want := max(1, int(math.Round(b.opts.RowFraction*float64(n))))
	if want == n {
		return rows, true
	}
	kept := rows[:0]
	for i, r := range rows {
		// Selection sampling: a row is kept with the share still wanted.
		if want-len(kept) == n-i || rng.IntN(n-i) < want-len(kept) {
			kept = append(kept, r)
		}
	}
	return kept, false
}

// sampleFeatures returns the features of one tree in ascending order.
func (b *booster) sampleFeatures(rng *rand.Rand) []int {
	n := len(b.binned.columns)
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
		rows := b.allRows()
		b.crew.each(blocks(len(rows)), func(_, i int) {
			begin, end := block(i, len(rows))
			for _, r := range rows[begin:end] {
				b.score[r] += b.opts.LearningRate * t.leaves[t.walk(b.binned, int(r))].value
			}
		})
		return
	}
	// By blocks of rows and not leaf by leaf, so that no two goroutines write to
	// rows beside each other.
	n := b.binned.Rows()
	b.crew.each(blocks(n), func(_, i int) {
		first, last := block(i, n)
		for i := range t.leaves {
			leaf := &t.leaves[i]
			rows := b.grower.rows[leaf.begin:leaf.end]
			from, _ := slices.BinarySearch(rows, int32(first))
			step := b.opts.LearningRate * leaf.value
			for _, r := range rows[from:] {
				if int(r) >= last {
					break
				}
				b.score[r] += step
			}
		}
	})
}

// forest is the result: the trees of Start, if any, and then the new ones.
func (b *booster) forest() (*forest.Forest, error) {
	rows := b.allRows()
	h := forest.Header{
		Objective:           b.opts.Objective.name(),
		FeatureNames:        b.binned.names,
		MonotoneConstraints: b.opts.MonotoneSigns,
		Ranges:              b.binned.extents(rows, b.labels.Rows == nil),
		Metadata:            map[string]string{"rows": strconv.Itoa(len(rows)), "seed": strconv.FormatUint(b.opts.Seed, 10)},
	}
	if b.opts.Objective == Quantile {
		h.Metadata["alpha"] = strconv.FormatFloat(b.opts.Alpha, 'g', -1, 64)
	}
	if b.opts.Start != nil {
		return continued(b.opts.Start, h, b.trees)
	}
	if len(b.trees) == 0 {
		b.trees = []forest.Tree{{Leaves: []forest.Leaf{{Count: int64(len(rows))}}}}
	}
	b.trees[0] = shifted(b.trees[0], b.initial)
	return forest.New(h, b.trees)
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
