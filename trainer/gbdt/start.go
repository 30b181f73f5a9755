package gbdt

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spillway-llm/spillway/internal/forest"
)

// checkStart judges whether training may go on from the forest of Start: it
// must predict the same thing under the same constraints.
func (o *Options) checkStart(names []string) error {
	h := o.Start.Header()
	switch {
	case !slices.Equal(h.FeatureNames, names):
		return errors.New("option Start has other features than the data")
	case h.Objective != o.Objective.name():
		return fmt.Errorf("option Start was fitted for %q, want %q", h.Objective, o.Objective.name())
	case o.Objective == Quantile && h.Metadata["alpha"] != strconv.FormatFloat(o.Alpha, 'g', -1, 64):
		return fmt.Errorf("option Start was fitted to the quantile %q, want %v", h.Metadata["alpha"], o.Alpha)
	case o.Start.Trees()+o.Trees > forest.MaxTrees:
		return fmt.Errorf("option Trees is %d after %d trees of Start, want at most %d in all", o.Trees, o.Start.Trees(), forest.MaxTrees)
	}
	for f := range names {
		var had int8
		if len(h.MonotoneConstraints) > 0 {
			had = h.MonotoneConstraints[f]
		}
		if sign := o.sign(f); sign != 0 && sign != had {
			return fmt.Errorf("option Start has sign %d for feature %s, want %d", had, names[f], sign)
		}
	}
	return nil
}

// predictRows passes the prediction of start for the k-th of the rows, from
// many goroutines.
func predictRows(crew *crew, start *forest.Forest, binned *Binned, rows []int32, put func(k int, p float64)) {
	const batch = 256
	width := len(binned.names)
	crew.each(blocks(len(rows)), func(_, i int) {
		begin, last := block(i, len(rows))
		x, out := make([]float64, 0, batch*width), make([]float64, batch)
		for ; begin < last; begin += batch {
			end := min(begin+batch, last)
			x = x[:0]
			for _, r := range rows[begin:end] {
				x = append(x, binned.x[int(r)*width:int(r+1)*width]...)
			}
			start.PredictBatch(x, end-begin, out)
			for k, p := range out[:end-begin] {
				put(begin+k, p)
			}
		}
	})
}

// continued is the forest of start's trees and then the new ones. It has seen
// what either has seen.
func continued(start *forest.Forest, h forest.Header, trees []forest.Tree) (*forest.Forest, error) {
	had := start.Header()
	for f, r := range had.Ranges {
		h.Ranges[f] = widened(h.Ranges[f], r)
	}
	all := make([]forest.Tree, 0, start.Trees()+len(trees))
	for i := range start.Trees() {
		all = append(all, start.Tree(i))
	}
	return forest.New(h, append(all, trees...))
}
