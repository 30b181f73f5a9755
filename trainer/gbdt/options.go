package gbdt

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/spillway-llm/spillway/internal/forest"
)

// Objective is the loss that training lowers.
type Objective int

const (
	// SquaredError fits the mean.
	SquaredError Objective = iota
	// Quantile fits the quantile Options.Alpha by pinball loss.
	Quantile
	// AbsoluteError fits the median by absolute deviation.
	AbsoluteError
)

// name is LightGBM's.
func (o Objective) name() string {
	switch o {
	case Quantile:
		return "quantile"
	case AbsoluteError:
		return "regression_l1"
	}
	return "regression"
}

// Options says how to train. Start from Defaults: there are no silent
// defaults, a field out of range is an error.
type Options struct {
	Objective Objective
	// Alpha is the quantile that Quantile fits, inside (0, 1); others ignore it.
	Alpha float64

	Trees        int     // most trees, from 1
	Leaves       int     // most leaves of a tree, from 2
	LearningRate float64 // share of each tree that is added, in (0, 1]
	L1           float64 // taken from the sum of gradients of a leaf, from 0
	L2           float64 // added to the sum of weights of a leaf, from 0
	MinLeafRows  int     // fewest rows of a leaf, from 1
	MinGain      float64 // least loss reduction of a split, from 0
	Bins         int     // most bins of a feature's known values, 2 to 255

	// MonotoneSigns has one of -1, 0, +1 for each feature: predictions never
	// rise, are free, or never fall with it. nil leaves all free.
	MonotoneSigns []int8

	RowFraction     float64 // share of the rows drawn for each tree, in (0, 1]
	FeatureFraction float64 // share of the features drawn for each tree, in (0, 1]
	Seed            uint64  // of all drawing
	Threads         int     // goroutines that work at once, from 1, at most GOMAXPROCS of them; does not change the result

	// Start, when set, is a forest to go on from: the result holds its trees and
	// then up to Trees new ones. It must have been fitted to the same features,
	// objective and signs, and to labels of the same meaning: refits, whose labels
	// are over a prior fitted anew each time, begin without.
	Start *forest.Forest

	// Validation, when set, is judged after every tree: training stops after
	// EarlyStoppingRounds trees without a better loss and keeps the trees up
	// to the best. Its columns are those of the training data. Take the
	// later part of the time, never a random part.
	Validation          *Data
	EarlyStoppingRounds int // from 1 with Validation, else 0
}

// Defaults are LightGBM's where it has one; L2 is 1 because leaves here hold
// few rows. Threads is GOMAXPROCS.
func Defaults() Options {
	return Options{
		Objective: SquaredError, Trees: 100, Leaves: 31, LearningRate: 0.1, L2: 1,
		MinLeafRows: 20, Bins: 255, RowFraction: 1, FeatureFraction: 1,
		Threads: runtime.GOMAXPROCS(0),
	}
}

// checkBinning judges the options that Bin reads.
func (o *Options) checkBinning() error {
	switch {
	case o.Bins < 2 || o.Bins > maxBins:
		return fmt.Errorf("option Bins is %d, want 2 to %d", o.Bins, maxBins)
	case o.Threads < 1:
		return fmt.Errorf("option Threads is %d, want at least 1", o.Threads)
	}
	return nil
}

// checkLoss judges the options that say what the loss is.
func (o *Options) checkLoss() error {
	switch {
	case o.Objective < SquaredError || o.Objective > AbsoluteError:
		return fmt.Errorf("unknown objective %d", o.Objective)
	case o.Objective == Quantile && !(o.Alpha > 0 && o.Alpha < 1):
		return fmt.Errorf("option Alpha is %v, want a quantile inside (0, 1)", o.Alpha)
	case o.Threads < 1:
		return fmt.Errorf("option Threads is %d, want at least 1", o.Threads)
	}
	return nil
}

// check judges the options for training data of the given columns.
func (o *Options) check(names []string) error {
	if err := o.checkBinning(); err != nil {
		return err
	}
	if err := o.checkLoss(); err != nil {
		return err
	}
	features := len(names)
	share := func(x float64) bool { return x > 0 && x <= 1 }
	switch {
	case o.Trees < 1 || o.Trees > forest.MaxTrees:
		return fmt.Errorf("option Trees is %d, want 1 to %d", o.Trees, forest.MaxTrees)
	case o.Leaves < 2 || o.Leaves > forest.MaxLeaves:
		return fmt.Errorf("option Leaves is %d, want 2 to %d", o.Leaves, forest.MaxLeaves)
	case o.Trees*o.Leaves > forest.MaxTotalLeaves:
		return fmt.Errorf("option Trees x Leaves is %d, want at most %d", o.Trees*o.Leaves, forest.MaxTotalLeaves)
	case !share(o.LearningRate):
		return fmt.Errorf("option LearningRate is %v, want it in (0, 1]", o.LearningRate)
	case !(o.L1 >= 0) || math.IsInf(o.L1, 0):
		return fmt.Errorf("option L1 is %v, want at least 0", o.L1)
	case !(o.L2 >= 0) || math.IsInf(o.L2, 0):
		return fmt.Errorf("option L2 is %v, want at least 0", o.L2)
	case o.MinLeafRows < 1:
		return fmt.Errorf("option MinLeafRows is %d, want at least 1", o.MinLeafRows)
	case !(o.MinGain >= 0):
		return fmt.Errorf("option MinGain is %v, want at least 0", o.MinGain)
	case !share(o.RowFraction):
		return fmt.Errorf("option RowFraction is %v, want it in (0, 1]", o.RowFraction)
	case !share(o.FeatureFraction):
		return fmt.Errorf("option FeatureFraction is %v, want it in (0, 1]", o.FeatureFraction)
	case o.MonotoneSigns != nil && len(o.MonotoneSigns) != features:
		return fmt.Errorf("option MonotoneSigns: %d signs for %d features", len(o.MonotoneSigns), features)
	case o.Validation == nil && o.EarlyStoppingRounds != 0:
		return errors.New("option EarlyStoppingRounds without Validation")
	case o.Validation != nil && o.EarlyStoppingRounds < 1:
		return fmt.Errorf("option EarlyStoppingRounds is %d, want at least 1 with Validation", o.EarlyStoppingRounds)
	}
	for i, sign := range o.MonotoneSigns {
		if sign < -1 || sign > 1 {
			return fmt.Errorf("option MonotoneSigns of feature %d is %d, want -1, 0 or 1", i, sign)
		}
	}
	if o.Start != nil {
		if err := o.checkStart(names); err != nil {
			return err
		}
	}
	if need := o.Leaves * (features + quad) * 2 * binsBytes; need > maxHistogramBytes {
		return fmt.Errorf("option Leaves x features needs %d MiB of histograms, want at most %d: lower Leaves", need>>20, maxHistogramBytes>>20)
	}
	if o.Validation == nil {
		return nil
	}
	if !slices.Equal(o.Validation.FeatureNames, names) {
		return errors.New("validation has other features than training")
	}
	if err := o.Validation.check(); err != nil {
		return fmt.Errorf("validation: %w", err)
	}
	return nil
}

// sign is the monotone sign of a feature.
func (o *Options) sign(feature int) int8 {
	if o.MonotoneSigns == nil {
		return 0
	}
	return o.MonotoneSigns[feature]
}

// monotone says that some feature is constrained.
func (o *Options) monotone() bool {
	return slices.ContainsFunc(o.MonotoneSigns, func(sign int8) bool { return sign != 0 })
}
