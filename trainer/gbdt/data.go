package gbdt

import (
	"fmt"
	"math"

	"github.com/spillway-llm/spillway/internal/forest"
)

// Data is what a forest is fitted to.
type Data struct {
	// FeatureNames names the columns; blanks and '=' are not allowed.
	FeatureNames []string
	// X holds the rows one after the other, len(FeatureNames) values each.
	// NaN is unknown; infinities are refused.
	X []float64
	// Y is the target of each row, at most 1e100 in size.
	Y []float64
	// Weights is positive and at most 1e100 for each row; nil weighs all rows 1.
	Weights []float64
}

// Labels is what one forest is fitted to, over the rows of a [Binned].
type Labels struct {
	// Y is the target of each row, at most 1e100 in size where the row is used.
	Y []float64
	// Weights is positive and at most 1e100 for each row that is used; nil
	// weighs all rows 1.
	Weights []float64
	// Rows are trained on, in ascending order; nil stands for all.
	Rows []int32
	// Held are rows that are not trained on but judged after every tree, in
	// ascending order: see Options.Validation. nil judges none.
	Held []int32
}

// most is the largest size of a target or weight: sums of their squares still
// are finite.
const most = 1e100

func (d *Data) check() error {
	if err := checkMatrix(d.FeatureNames, d.X); err != nil {
		return err
	}
	if len(d.Y)*len(d.FeatureNames) != len(d.X) {
		return fmt.Errorf("%d values for %d rows of %d features", len(d.X), len(d.Y), len(d.FeatureNames))
	}
	l := Labels{Y: d.Y, Weights: d.Weights}
	return l.check(len(d.Y))
}

// checkMatrix judges all but what binning finds out: whether a value is
// infinite.
func checkMatrix(names []string, x []float64) error {
	features := len(names)
	if features == 0 || features > forest.MaxFeatures {
		return fmt.Errorf("%d features, want 1 to %d", features, forest.MaxFeatures)
	}
	if len(x)%features != 0 {
		return fmt.Errorf("%d values for rows of %d features", len(x), features)
	}
	if rows := len(x) / features; rows == 0 || rows > maxRows {
		return fmt.Errorf("%d rows, want 1 to %d", rows, maxRows)
	}
	probe := forest.Header{FeatureNames: names}
	_, err := forest.New(probe, []forest.Tree{{Leaves: []forest.Leaf{{}}}})
	return err // a name that the text can't hold
}

func (l *Labels) check(rows int) error {
	switch {
	case len(l.Y) != rows:
		return fmt.Errorf("%d targets for %d rows", len(l.Y), rows)
	case l.Weights != nil && len(l.Weights) != rows:
		return fmt.Errorf("%d weights for %d rows", len(l.Weights), rows)
	case l.Rows != nil && len(l.Rows) == 0:
		return fmt.Errorf("no rows to train on")
	case l.Held != nil && len(l.Held) == 0:
		return fmt.Errorf("no rows to judge")
	}
	if l.Rows == nil {
		for r := range rows {
			if err := l.checkRow(r); err != nil {
				return err
			}
		}
	}
	for _, list := range [2][]int32{l.Rows, l.Held} {
		last := -1
		for _, r := range list {
			if int(r) <= last || int(r) >= rows {
				return fmt.Errorf("row %d after row %d in a list of rows, want them ascending and under %d", r, last, rows)
			}
			last = int(r)
			if err := l.checkRow(last); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Labels) checkRow(r int) error {
	if y := l.Y[r]; !(math.Abs(y) <= most) {
		return fmt.Errorf("row %d: target is %v, want a number of at most %g", r, y, most)
	}
	if l.Weights == nil {
		return nil
	}
	if w := l.Weights[r]; !(w > 0 && w <= most) {
		return fmt.Errorf("row %d: weight is %v, want a positive number of at most %g", r, w, most)
	}
	return nil
}
