package gbdt

import "math"

// WeightedQuantile lets tests compare selection with sorting.
func WeightedQuantile(values, weights []float64, alpha float64) float64 {
	of := sample{weights: weights, stride: 1}
	for i, v := range values {
		of.values = append(of.values, math.Float64bits(v))
		of.rows = append(of.rows, int32(i))
	}
	return new(selector).quantile(of, alpha)
}
