package gbdt_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// sortedQuantile is the definition, by sorting. Weights are small whole
// numbers, so that their sums are exact in any order.
func sortedQuantile(values, weights []float64, alpha float64) float64 {
	type pair struct{ value, weight float64 }
	pairs := make([]pair, len(values))
	total := 0.0
	for i, v := range values {
		pairs[i] = pair{v, 1}
		if weights != nil {
			pairs[i].weight = weights[i]
		}
		total += pairs[i].weight
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		switch {
		case a.value < b.value:
			return -1
		case a.value > b.value:
			return 1
		}
		return 0
	})
	sum := 0.0
	for _, p := range pairs {
		if sum += p.weight; sum >= alpha*total {
			return p.value
		}
	}
	return pairs[len(pairs)-1].value
}

func TestWeightedQuantileEqualsSorting(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		few := rapid.Bool().Draw(rt, "few distinct values")
		n := rapid.IntRange(1, 200).Draw(rt, "n")
		values := make([]float64, n)
		for i := range values {
			values[i] = rapid.Float64Range(-1, 1).Draw(rt, "value")
			if few {
				values[i] = math.Round(2 * values[i])
			}
		}
		var weights []float64
		if rapid.Bool().Draw(rt, "weighted") {
			for range n {
				weights = append(weights, float64(rapid.IntRange(1, 5).Draw(rt, "weight")))
			}
		}
		alpha := rapid.SampledFrom([]float64{0.01, 0.1, 0.25, 0.5, 0.9, 0.99, 0.999}).Draw(rt, "alpha")
		want := sortedQuantile(values, weights, alpha)
		before := slices.Sorted(slices.Values(values))
		if got := gbdt.WeightedQuantile(values, weights, alpha); got != want {
			rt.Fatalf("quantile %v of %v weighing %v is %v, want %v", alpha, values, weights, got, want)
		}
		slices.Sort(values)
		if !slices.Equal(values, before) {
			rt.Fatal("lost or changed a value")
		}
	})
}

// Weights of very different sizes make sums depend on their order; the result
// must still be one of the values and the search must end.
func TestWeightedQuantileEndsWithRoundedWeights(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(rt, "n")
		values, weights := make([]float64, n), make([]float64, n)
		for i := range values {
			values[i] = rapid.Float64Range(-1, 1).Draw(rt, "value")
			weights[i] = math.Pow(10, rapid.Float64Range(-300, 300).Draw(rt, "exponent of weight"))
		}
		known := slices.Clone(values)
		if got := gbdt.WeightedQuantile(values, weights, 0.999999); !slices.Contains(known, got) {
			rt.Fatalf("%v is none of the values", got)
		}
	})
}
