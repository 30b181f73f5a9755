package trainer

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
)

// CoverageVerdict is how many outcomes came at or below the candidate's p90, as
// a router corrects it for the bias of an endpoint, in one band of load.
type CoverageVerdict struct {
	Head string `json:"head"`
	Band string `json:"band"` // all, or which of the four quarters by load, from q1, the lightest
	Rows int    `json:"rows"`
	// Effective is how many independent rows say as much.
	Effective int               `json:"effective_rows"`
	Share     evaluate.Interval `json:"share"`  // with its 99 % interval, of the effective rows
	Judged    bool              `json:"judged"` // whether the gate went by it
}

const (
	bandRows      = 1000 // effective ones, from which a band is judged by itself
	leastCoverage = 0.87
	mostCoverage  = 0.93
	bands         = 4
)

// coverage of a p90 head: of all rows, and of each quarter by load. The bands
// with enough rows are judged; without any, all rows together are.
func coverage(target bundle.Target, judge []sample, c contender) []CoverageVerdict {
	var rows []int
	for i := range judge {
		if y := judge[i].Label(target); y == y && c[target][i] == c[target][i] {
			rows = append(rows, i)
		}
	}
	of := func(band string, rows []int) CoverageVerdict {
		within := make([]float64, len(rows))
		for k, i := range rows {
			if judge[i].Label(target) <= c[target][i] {
				within[k] = 1
			}
		}
		v := CoverageVerdict{Head: target.String(), Band: band, Rows: len(rows)}
		v.Effective = int(float64(len(rows)) / evaluate.CorrelationTime(within))
		p := evaluate.Wilson(int64(math.Round(evaluate.Mean(within)*float64(v.Effective))), int64(v.Effective))
		v.Share = evaluate.Interval{Mean: feature.Number(evaluate.Mean(within)), Low: p.Low, High: p.High}
		return v
	}
	if len(rows) == 0 {
		return nil
	}
	out := []CoverageVerdict{of("all", rows)}
	sorted := slices.Clone(rows)
	slices.SortStableFunc(sorted, func(a, b int) int { return cmp.Compare(loadOf(&judge[a].Vector), loadOf(&judge[b].Vector)) })
	alone := false
	for b := range bands {
		band := slices.Sorted(slices.Values(sorted[b*len(sorted)/bands : (b+1)*len(sorted)/bands]))
		v := of(fmt.Sprintf("q%d", b+1), band)
		v.Judged = v.Effective >= bandRows
		alone = alone || v.Judged
		out = append(out, v)
	}
	out[0].Judged = !alone
	return out
}

// loadOf is how many requests an endpoint was known to have before the
// decision: what it said, or what the router had sent there.
func loadOf(v *feature.Vector) float64 {
	scraped := float64(v[columnWaiting] + v[columnRunning])
	own := float64(v[inflight])
	if scraped != scraped {
		return own
	}
	return max(scraped, own)
}

var columnWaiting, columnRunning = feature.Index("waiting"), feature.Index("running")

// judgeCoverage refuses a candidate whose p90 is none: its 99 % interval lies
// wholly outside 87 to 93 %.
func (v *Verdict) judgeCoverage(c CoverageVerdict) {
	if c.Judged && (c.Share.High < leastCoverage || c.Share.Low > mostCoverage) {
		v.refuse(BadCoverage, fmt.Sprintf("%s covers %.1f %% of %s", c.Head, 100*c.Share.Mean, map[bool]string{true: "the outcomes", false: "load band " + c.Band}[c.Band == "all"]))
	}
}
