package fit

import (
	"math"
	"slices"
)

// An equation says that a number is a sum of parts, one for each parameter:
// value = parts · parameters.
type equation struct {
	value float64   // measured, less what is already explained
	of    float64   // what its error is relative to: the whole measured number, positive
	kind  int       // ofTPOT or ofTTFT
	parts []float64 // one for each parameter
}

// The kinds of equations. Those of one kind are trusted alike.
const (
	ofTPOT = iota
	ofTTFT
	ofChunked // TPOT while others were prefilled
	kinds
)

// off is the relative error that the parameters leave.
func (e equation) off(parameters []float64) float64 {
	return math.Abs(dot(e.parts, parameters)-e.value) / e.of
}

// over is what was measured as a share of what the parameters say, where they
// say more; else 1.
func (e equation) over(parameters []float64) float64 {
	return min(1, e.of/max(dot(e.parts, parameters), 1e-300))
}

// robust fits the non-negative parameters of the equations by their relative
// error. Equations that stay far off count less and less (Huber's weights: k =
// 1.345 robust standard deviations, the usual choice that is 95 % efficient on
// normal errors), so that a few outliers decide nothing; each kind counts by
// its own spread. It is deterministic. Parameters without any part are 0.
func robust(equations []equation, width int) []float64 {
	return weighted(equations, width, nil, start{})
}

// start is what parameters are believed to be before any equation: as firmly as
// so many equations would say it. The first round trusts equations by it.
type start struct {
	at   []float64
	rows float64
}

// weighted is robust where equations have weights of their own (nil: all alike)
// and parameters are drawn to a start, if there is one. With a start, what
// parameters say too much is an error relative to what they say: relative to
// what was measured, a request that found no queue where one was expected would
// outweigh a hundred that did, for it is off by a hundred times.
func weighted(equations []equation, width int, own []float64, from start) []float64 {
	const (
		rounds     = 30
		efficiency = 1.345
		toSigma    = 1.4826 // median absolute deviation of normal errors
		leastSigma = 2e-3   // measurements are not better than this
	)
	weigh := func(i int) float64 {
		if own == nil {
			return 1
		}
		return own[i]
	}
	over := func(equation, []float64) float64 { return 1 }
	if from.at != nil {
		over = equation.over
	}
	weights := make([]float64, len(equations))
	for i, e := range equations {
		o := over(e, from.at)
		weights[i] = weigh(i) * o * o
	}
	var solution []float64
	for range rounds {
		next := nonNegative(equations, weights, width, from)
		done := solution != nil && near(next, solution)
		if solution = next; done {
			break
		}
		var errors [kinds][]float64
		for _, e := range equations {
			errors[e.kind] = append(errors[e.kind], over(e, solution)*e.off(solution))
		}
		var sigma [kinds]float64
		for kind := range sigma {
			sigma[kind] = max(leastSigma, toSigma*quantile(errors[kind], 0.5))
		}
		for i, e := range equations {
			s, o := sigma[e.kind], over(e, solution)
			weights[i] = weigh(i) * min(1, efficiency*s/max(o*e.off(solution), 1e-300)) * o * o / (s * s)
		}
	}
	return solution
}

// nonNegative is the weighted least-squares solution of the relative errors
// among the non-negative parameters (Lawson and Hanson's active-set method,
// "Solving Least Squares Problems", 1974, chapter 23), on normal equations of
// scaled columns: there are few parameters here.
func nonNegative(equations []equation, weights []float64, width int, from start) []float64 {
	gram := make([][]float64, width)
	for i := range gram {
		gram[i] = make([]float64, width)
	}
	right := make([]float64, width)
	shares := make([]float64, width)
	for i, e := range equations {
		for j, p := range e.parts {
			shares[j] = p / e.of
		}
		for j, x := range shares {
			if x == 0 { // most ramps are
				continue
			}
			x *= weights[i]
			right[j] += x * e.value / e.of
			row := gram[j]
			for k, y := range shares[:j+1] {
				row[k] += x * y
			}
		}
	}
	scale := make([]float64, width)
	for j := range scale {
		if scale[j] = math.Sqrt(gram[j][j]); scale[j] == 0 {
			scale[j] = 1
		}
	}
	for j := range gram {
		right[j] /= scale[j]
		for k := range j + 1 {
			gram[j][k] /= scale[j] * scale[k]
			gram[k][j] = gram[j][k]
		}
	}
	if from.rows > 0 {
		// The columns are scaled so that all equations together weigh 1.
		share := from.rows / float64(len(equations))
		for j := range gram {
			gram[j][j] += share
			right[j] += share * from.at[j] * scale[j]
		}
	}
	solution := activeSet(gram, right)
	for j := range solution {
		solution[j] /= scale[j]
	}
	return solution
}

// activeSet minimises x'Gx/2 - r'x over x >= 0.
func activeSet(gram [][]float64, right []float64) []float64 {
	width := len(right)
	x := make([]float64, width)
	free := make([]bool, width)
	useless := make([]bool, width) // depends on the free ones, up to rounding
	for range 3 * width * width {  // far more than it takes; rounding must not make it endless
		best, steepest := -1, 1e-12
		for j := range width {
			if free[j] || useless[j] {
				continue
			}
			if slope := right[j] - dot(gram[j], x); slope > steepest {
				best, steepest = j, slope
			}
		}
		if best < 0 {
			break
		}
		free[best] = true
		for {
			candidate, ok := solve(gram, right, free)
			if !ok {
				free[best], useless[best] = false, true
				break
			}
			step := 1.0
			for j := range width {
				if free[j] && candidate[j] <= 0 {
					step = min(step, x[j]/(x[j]-candidate[j]))
				}
			}
			if step == 1 {
				x = candidate
				clear(useless)
				break
			}
			for j := range width {
				if free[j] {
					if x[j] += step * (candidate[j] - x[j]); x[j] <= 1e-14 {
						x[j], free[j] = 0, false
					}
				}
			}
		}
	}
	return x
}

// solve solves Gx = r for the free parameters by Cholesky's decomposition; the
// others are 0. It is false when G is singular there.
func solve(gram [][]float64, right []float64, free []bool) ([]float64, bool) {
	var at []int
	for j, f := range free {
		if f {
			at = append(at, j)
		}
	}
	n := len(at)
	low := make([][]float64, n)
	y := make([]float64, n)
	for i := range n {
		low[i] = make([]float64, n)
		for j := range i + 1 {
			sum := gram[at[i]][at[j]] - dot(low[i][:j], low[j][:j])
			switch {
			case i != j:
				low[i][j] = sum / low[j][j]
			case sum <= 1e-12*gram[at[i]][at[i]]:
				return nil, false
			default:
				low[i][i] = math.Sqrt(sum)
			}
		}
		y[i] = (right[at[i]] - dot(low[i][:i], y[:i])) / low[i][i]
	}
	x := make([]float64, len(free))
	for i := n - 1; i >= 0; i-- {
		sum := y[i]
		for k := i + 1; k < n; k++ {
			sum -= low[k][i] * x[at[k]]
		}
		x[at[i]] = sum / low[i][i]
	}
	return x, true
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// near reports whether two solutions are the same to a millionth.
func near(a, b []float64) bool {
	for i := range a {
		if math.Abs(a[i]-b[i]) > 1e-6*max(math.Abs(a[i]), math.Abs(b[i])) {
			return false
		}
	}
	return true
}

// quantile interpolates between the values next to it; NaN of none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}
