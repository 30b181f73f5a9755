// Package forest reads and writes gradient-boosted regression trees as
// LightGBM text (version=v3, and v4 on reading) and evaluates them fast and
// without allocating.
//
// A Forest is immutable and safe for concurrent use. Its predictions are the
// raw sum of the leaf values in tree order, so they equal, bit for bit, those
// of a reader that walks one tree after another and applies no output
// transformation.
//
// The text may come from outside: [Parse] bounds every count before it
// allocates, and a file that parses evaluates without panicking.
package forest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Limits on what New and Parse accept. They are far above what a forecast can
// afford to evaluate and keep a hostile file from exhausting memory.
const (
	MaxBytes       = 64 << 20 // of text
	MaxTrees       = 10_000
	MaxLeaves      = 4_096   // in one tree
	MaxTotalLeaves = 1 << 20 // in all trees; keeps the decoded form under about 200 MiB
	MaxFeatures    = 1_024
)

// ErrUnsupported marks a well-formed, safe file that this package does not
// evaluate (categorical splits, averaged output) but that the leaves library
// evaluates exactly. Files that leaves would get wrong, such as linear trees,
// are refused with an error that does not match ErrUnsupported.
var ErrUnsupported = errors.New("not supported by the flat evaluator")

// Range is the smallest and largest finite value a feature took in training;
// both are NaN when that is unknown.
type Range struct{ Min, Max float64 }

// Header is everything a forest says about itself beside its trees.
type Header struct {
	// Objective is LightGBM's name of the training objective, such as
	// "regression" or "quantile". Predictions are raw whatever it says.
	Objective string
	// FeatureNames has one name for every column of a row, in order. Names
	// hold no blanks and no '='.
	FeatureNames []string
	// MonotoneConstraints has one sign (-1, 0, +1) for every feature; nil
	// means that nothing was constrained.
	MonotoneConstraints []int8
	// Ranges has one entry for every feature, or is nil when unknown.
	Ranges []Range
	// Metadata holds further key=value lines of the header. Keys hold no
	// blanks; neither keys nor values hold '=' or line breaks. LightGBM and
	// leaves ignore them.
	Metadata map[string]string
}

// Forest is one fitted tree ensemble: one target, one quantile.
type Forest struct {
	header Header
	trees  []Tree

	// The flat layout, described in flat.go; all nil where it does not fit.
	words   []uint64  // of the nodes of all trees, and the last one
	values  []float64 // of leaves by node, 0 at others
	roots   []uint32  // the first node of each tree
	columns []column
}

// New checks a header and trees against the limits of this package and
// returns the forest that evaluates them. It keeps its own copy of the header
// but not of the trees, which must not be changed afterwards.
func New(header Header, trees []Tree) (*Forest, error) {
	if err := header.check(); err != nil {
		return nil, fmt.Errorf("build forest: %w", err)
	}
	if len(trees) == 0 || len(trees) > MaxTrees {
		return nil, fmt.Errorf("build forest: %d trees, want 1 to %d", len(trees), MaxTrees)
	}
	total := 0
	for i := range trees {
		if err := trees[i].check(len(header.FeatureNames)); err != nil {
			return nil, fmt.Errorf("build forest: tree %d: %w", i, err)
		}
		if total += len(trees[i].Leaves); total > MaxTotalLeaves {
			return nil, fmt.Errorf("build forest: more than %d leaves in all trees", MaxTotalLeaves)
		}
	}
	f := &Forest{header: header.clone(), trees: trees}
	f.flatten(total)
	return f, nil
}

// Header returns a copy of what the forest says about itself.
func (f *Forest) Header() Header { return f.header.clone() }

// NumFeatures is the number of values in a row.
func (f *Forest) NumFeatures() int { return len(f.header.FeatureNames) }

// Trees is the number of trees.
func (f *Forest) Trees() int { return len(f.trees) }

// Check tells whether rows of the given width can be evaluated. Callers check
// once, where a forest meets a schema; Predict and PredictBatch panic on a
// wrong width.
func (f *Forest) Check(width int) error {
	if width != f.NumFeatures() {
		return fmt.Errorf("forest wants rows of %d features, not %d", f.NumFeatures(), width)
	}
	return nil
}

func (h Header) clone() Header {
	h.FeatureNames = slices.Clone(h.FeatureNames)
	h.MonotoneConstraints = slices.Clone(h.MonotoneConstraints)
	h.Ranges = slices.Clone(h.Ranges)
	h.Metadata = maps.Clone(h.Metadata)
	return h
}

// check accepts only what survives a round trip through the text.
func (h *Header) check() error {
	n := len(h.FeatureNames)
	if n == 0 || n > MaxFeatures {
		return fmt.Errorf("%d features, want 1 to %d", n, MaxFeatures)
	}
	for i, name := range h.FeatureNames {
		if !isWord(name) {
			return fmt.Errorf("name of feature %d: %q is empty or holds blanks or '='", i, clip(name))
		}
	}
	if len(h.MonotoneConstraints) != 0 && len(h.MonotoneConstraints) != n {
		return fmt.Errorf("%d monotone constraints for %d features", len(h.MonotoneConstraints), n)
	}
	for i, sign := range h.MonotoneConstraints {
		if sign < -1 || sign > 1 {
			return fmt.Errorf("monotone constraint %d of feature %d, want -1, 0 or 1", sign, i)
		}
	}
	if len(h.Ranges) != 0 && len(h.Ranges) != n {
		return fmt.Errorf("%d ranges for %d features", len(h.Ranges), n)
	}
	for i, r := range h.Ranges {
		known := r.Min <= r.Max && !math.IsInf(r.Min, 0) && !math.IsInf(r.Max, 0)
		unknown := math.IsNaN(r.Min) && math.IsNaN(r.Max)
		if !known && !unknown {
			return fmt.Errorf("range of feature %d: [%v, %v] is not an interval", i, r.Min, r.Max)
		}
	}
	if !isLineValue(h.Objective) {
		return fmt.Errorf("objective %q holds '=', line breaks or outer blanks", clip(h.Objective))
	}
	if slices.Contains(strings.Fields(h.Objective), "sqrt") {
		return fmt.Errorf("objective %q: reg_sqrt predictions are not raw sums", clip(h.Objective))
	}
	for key, value := range h.Metadata {
		if !isWord(key) || headerKeys[key] || strings.HasPrefix(key, "[") {
			return fmt.Errorf("metadata key %q is reserved, empty, or holds blanks or '='", clip(key))
		}
		if !isLineValue(value) {
			return fmt.Errorf("metadata %q: value %q holds '=', line breaks or outer blanks", clip(key), clip(value))
		}
	}
	return nil
}

// isWord reports whether s can stand as a key or in a list separated by blanks.
func isWord(s string) bool {
	return s != "" && !strings.Contains(s, "=") && len(strings.Fields(s)) == 1 && strings.TrimSpace(s) == s
}

// isLineValue reports whether s can stand after '=' on a line of its own.
func isLineValue(s string) bool {
	return !strings.ContainsAny(s, "=\r\n") && strings.TrimSpace(s) == s
}
