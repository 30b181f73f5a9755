package evaluate

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Any quantile of a sketch, also of one merged from parts, is the exact one to
// 0.2 %.
func TestSketchQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 1, 200).Draw(t, "values")
		parts := [2]sketch{{}, {}}
		for i, v := range values {
			parts[i%2].add(v)
		}
		parts[0].merge(parts[1])
		slices.Sort(values)
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		want := values[int(q*float64(len(values)-1))]
		if got := parts[0].quantile(q); math.Abs(got-want) > 0.00201*want+sketchLeast {
			t.Fatalf("the %v-quantile is %v, want %v", q, got, want)
		}
	})
}

// Gathered in bounded memory, the sums stay what they are.
func TestSharesKeepTheirSums(t *testing.T) {
	var s shares
	for i := range 100_000 {
		s.add(share{float64(i % 3), 1})
	}
	var total share
	for _, x := range s.all {
		total.add(x)
	}
	if total.sum != 99999 || total.n != 100_000 || len(s.all) > mostShares {
		t.Errorf("%v in %d", total, len(s.all))
	}
}
