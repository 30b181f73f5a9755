package calibrate

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// mostCondition is the condition number, of scaled columns, from which numbers
// can't be told apart: an error of a percent in a measurement could become one
// of a hundred times the number.
const mostCondition = 1e4

// nonNegative finds the parameters from 0 that leave the least squared error
// relative to each equation's value. There are few parameters, so every choice
// of those that are above 0 is tried. Columns that the rows can't tell apart
// are never above 0 together.
func nonNegative(rows [][]float64, values []float64) ([]float64, error) {
	width := len(rows[0])
	if x, _, ok := solve(rows, values, 1<<width-1); ok {
		return x, nil // the least of all, and above 0
	}
	var best []float64
	least := math.Inf(1)
	for chosen := 1; chosen < 1<<width; chosen++ {
		x, squares, ok := solve(rows, values, chosen)
		if ok && squares < least {
			best, least = x, squares
		}
	}
	if best == nil {
		return nil, fmt.Errorf("%d measurements do not tell any of %d numbers", len(rows), width)
	}
	return best, nil
}

// solve is the least-squares solution in the chosen columns, a bit each. It is
// false when they can't be told apart, or one would be negative.
func solve(rows [][]float64, values []float64, chosen int) (x []float64, squares float64, ok bool) {
	var columns []int
	for j := range rows[0] {
		if chosen&(1<<j) != 0 {
			columns = append(columns, j)
		}
	}
	if len(columns) > len(rows) {
		return nil, 0, false
	}
	scales := make([]float64, len(columns))
	for k, j := range columns {
		for i, row := range rows {
			scales[k] = math.Hypot(scales[k], row[j]/values[i])
		}
		if scales[k] == 0 {
			return nil, 0, false
		}
	}
	left := mat.NewDense(len(rows), len(columns), nil)
	ones := mat.NewVecDense(len(rows), nil)
	for i, row := range rows {
		ones.SetVec(i, 1)
		for k, j := range columns {
			left.Set(i, k, row[j]/values[i]/scales[k])
		}
	}
	var qr mat.QR
	qr.Factorize(left)
	if qr.Cond() > mostCondition {
		return nil, 0, false
	}
	var solution mat.VecDense
	if qr.SolveVecTo(&solution, false, ones) != nil {
		return nil, 0, false
	}
	x = make([]float64, len(rows[0]))
	for k, j := range columns {
		if x[j] = solution.AtVec(k) / scales[k]; !(x[j] >= 0) {
			return nil, 0, false
		}
	}
	for i, row := range rows {
		off := dot(row, x)/values[i] - 1
		squares += off * off
	}
	return x, squares, true
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}
