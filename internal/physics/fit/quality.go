package fit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Spread summarises relative errors, |predicted/measured - 1|.
type Spread struct {
	Rows   int
	Median float64 // NaN without rows, as the others
	P90    float64
	Worst  float64
}

// MarshalJSON writes null for a number that is not known.
func (s Spread) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{
		"rows": s.Rows, "median": feature.Number(s.Median), "p90": feature.Number(s.P90), "worst": feature.Number(s.Worst),
	})
}

// Quality is how well one group of rows was predicted.
type Quality struct {
	Group string `json:"group"`
	TTFT  Spread `json:"ttft"`
	TPOT  Spread `json:"tpot"`
}

// Errors gathers the relative errors of predictions by group. The zero value
// is empty.
type Errors struct {
	groups map[string]*[kinds][]float64
}

// Add counts one row in each of the groups. A measured number that is unknown
// counts for nothing.
func (e *Errors) Add(predicted, measured feature.Prior, groups ...string) {
	for _, name := range groups {
		g := e.group(name)
		for kind, pair := range [kinds][2]feature.Seconds{ofTPOT: {predicted.TPOT, measured.TPOT}, ofTTFT: {predicted.TTFT, measured.TTFT}} {
			if off := math.Abs(float64(pair[0]/pair[1]) - 1); !math.IsNaN(off) {
				g[kind] = append(g[kind], off)
			}
		}
	}
}

func (e *Errors) group(name string) *[kinds][]float64 {
	g := e.groups[name]
	if g == nil {
		if e.groups == nil {
			e.groups = make(map[string]*[kinds][]float64)
		}
		g = new([kinds][]float64)
		e.groups[name] = g
	}
	return g
}

// Merge counts the rows of other, with every group's name changed by rename;
// an empty name leaves the group out.
func (e *Errors) Merge(other *Errors, rename func(group string) string) {
	for name, from := range other.groups { // quantiles do not depend on the order
		to := rename(name)
		if to == "" {
			continue
		}
		g := e.group(to)
		for kind, off := range from {
			g[kind] = append(g[kind], off...)
		}
	}
}

// Of is the quality of one group.
func (e *Errors) Of(group string) Quality {
	q := Quality{Group: group}
	var g [kinds][]float64
	if e.groups[group] != nil {
		g = *e.groups[group]
	}
	q.TTFT, q.TPOT = spread(g[ofTTFT]), spread(g[ofTPOT])
	return q
}

// Table is the quality of every group: All first, then names that begin with a
// letter, then the others, numbers inside names by their size.
func (e *Errors) Table() []Quality {
	names := slices.Sorted(maps.Keys(e.groups))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(order(a), order(b)) })
	table := make([]Quality, 0, len(names))
	for _, name := range names {
		table = append(table, e.Of(name))
	}
	return table
}

// order is a text by which names sort as Table promises.
func order(name string) string {
	padded := numbers.ReplaceAllStringFunc(name, func(n string) string { return fmt.Sprintf("%012s", n) })
	switch {
	case name == All:
		return "0"
	case name != "" && name[0] > '9':
		return "1" + padded
	}
	return "2" + padded
}

var numbers = regexp.MustCompile(`[0-9]+`)

func spread(errors []float64) Spread {
	return Spread{Rows: len(errors), Median: quantile(errors, 0.5), P90: quantile(errors, 0.9), Worst: quantile(errors, 1)}
}
