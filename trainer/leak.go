package trainer

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
)

const (
	leakRows = 2000  // the latest, that are looked at
	leakRank = 0.995 // rank correlation from which a column says the label itself
	leakGain = 4     // times closer to it than the prior
)

// leakOf names the column that tells what only the future could have told: one
// that orders the rows as their latency, or their residual, turned out, and far
// better than the prior does, which knows all that was known. A forest would
// learn nothing else, and pass any test on rows that have the same fault.
func leakOf(judge []sample) (column string, leaks bool) {
	judge = judge[max(0, len(judge)-leakRows):]
	for _, of := range []struct {
		prior int
		label func(*sample) float64
	}{
		{feature.ColumnPriorTTFT, func(s *sample) float64 { return s.TTFT }},
		{feature.ColumnPriorTPOT, func(s *sample) float64 { return s.TPOT }},
	} {
		var rows []*sample
		var residual, latency []float64
		for i := range judge {
			if r := of.label(&judge[i]); r == r {
				rows = append(rows, &judge[i])
				residual = append(residual, r)
				latency = append(latency, r+math.Log(float64(judge[i].Vector[of.prior])))
			}
		}
		ranked, rankedResidual := ranks(latency), ranks(residual)
		told := math.Abs(correlation(ranked, ranks(columnValues(rows, of.prior))))
		for c, f := range feature.Table() {
			if f.Source == feature.FromPrior {
				continue
			}
			values := ranks(columnValues(rows, c))
			if r := math.Abs(correlation(ranked, values)); r >= leakRank && 1-told > leakGain*(1-r) {
				return f.Name, true
			}
			if math.Abs(correlation(rankedResidual, values)) >= leakRank {
				return f.Name, true
			}
		}
	}
	return "", false
}

// leakReason is for people.
func leakReason(column string) string {
	return fmt.Sprintf("%s tells the latency before it was measured", column)
}

func columnValues(rows []*sample, column int) []float64 {
	out := make([]float64, len(rows))
	for i, s := range rows {
		out[i] = float64(s.Vector[column])
	}
	return out
}

// ranks are the places of the values in their order, those of equal ones
// shared. Unknown values come first.
func ranks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	out := make([]float64, len(values))
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && cmp.Compare(values[order[from]], values[order[to]]) == 0 {
			to++
		}
		for _, i := range order[from:to] {
			out[i] = float64(from+to-1) / 2
		}
		from = to
	}
	return out
}

// correlation of two series; 0 when one does not vary.
func correlation(a, b []float64) float64 {
	n := float64(len(a))
	var sa, sb, saa, sbb, sab float64
	for i := range a {
		sa += a[i]
		sb += b[i]
	}
	for i := range a {
		x, y := a[i]-sa/n, b[i]-sb/n
		saa += x * x
		sbb += y * y
		sab += x * y
	}
	if !(saa > 0 && sbb > 0) {
		return 0
	}
	return sab / math.Sqrt(saa*sbb)
}
