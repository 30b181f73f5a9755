package gbdt

import "math"

// lossRows is how many rows are gone through at a time. It is fixed, so that sums
// of parts do not depend on the number of threads.
const lossRows = 8192

// pinball says that the loss is a pinball: leaves take the quantile of their
// residuals, and gradients have two values only.
func (o *Options) pinball() bool { return o.Objective != SquaredError }

// quantile is the quantile that a pinball fits.
func (o *Options) quantile() float64 {
	if o.Objective == AbsoluteError {
		return 0.5
	}
	return o.Alpha
}

// of is the loss of a row by what the target is above the prediction.
func (o *Options) of(above float64) float64 {
	switch {
	case o.Objective == SquaredError:
		return above * above
	case o.Objective == AbsoluteError:
		return math.Abs(above)
	case above >= 0:
		return o.Alpha * above
	}
	return (o.Alpha - 1) * above
}

// loss is the mean weighted loss of a score for the rows of y; score stands in
// the order of rows.
func (o *Options) loss(crew *crew, score []float64, l Labels, rows []int32) float64 {
	lost, weight := make([]float64, blocks(len(rows))), make([]float64, blocks(len(rows)))
	crew.each(len(lost), func(_, i int) {
		begin, end := block(i, len(rows))
		for k := begin; k < end; k++ {
			r := rows[k]
			w := 1.0
			if l.Weights != nil {
				w = l.Weights[r]
			}
			lost[i] += w * o.of(l.Y[r]-score[k])
			weight[i] += w
		}
	})
	return sum(lost) / sum(weight)
}

func sum(x []float64) (total float64) {
	for _, v := range x {
		total += v
	}
	return total
}

// blocks is how many blocks of lossRows rows n rows are, the last one shorter.
func blocks(n int) int { return (n + lossRows - 1) / lossRows }

// block is where block i of n rows begins and ends.
func block(i, n int) (begin, end int) { return i * lossRows, min((i+1)*lossRows, n) }
