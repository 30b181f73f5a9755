package console

import (
	"fmt"
	"math"
	"slices"
)

// pair is a forecast and what came of it, in seconds; NaN where unknown.
type pair struct{ forecast, actual float64 }

// plot is forecasts against actuals on two equal logarithmic axes: a point on
// the diagonal was forecast rightly, one above it was slower than forecast.
// Lengths are those of the SVG's view box.
type plot struct {
	Name      string
	Points    []point
	Ticks     []tick
	MedianAPE string // median |forecast - actual| / actual; empty without points
}

type point struct{ X, Y float64 }

type tick struct {
	X, Y float64
	Text string
}

// The view box: a square of plotSide with a margin for the labels of the axes.
const (
	plotLeft = 46.0
	plotSide = 240.0
)

// scatter draws what both numbers are known and positive of.
func scatter(name string, pairs []pair) plot {
	p := plot{Name: name}
	low, high := math.Inf(1), math.Inf(-1)
	var errs []float64
	var known []pair
	for _, q := range pairs {
		if !(q.forecast > 0) || !(q.actual > 0) || math.IsInf(q.forecast, 0) || math.IsInf(q.actual, 0) {
			continue
		}
		known = append(known, q)
		errs = append(errs, math.Abs(q.forecast-q.actual)/q.actual)
		low = min(low, q.forecast, q.actual)
		high = max(high, q.forecast, q.actual)
	}
	if len(known) == 0 {
		return p
	}
	slices.Sort(errs)
	p.MedianAPE = fmt.Sprintf("%.1f %%", 100*errs[len(errs)/2])
	from, to := math.Log10(low)-0.05, math.Log10(high)+0.05
	at := func(v float64) float64 { return plotSide * (math.Log10(v) - from) / (to - from) }
	for _, q := range known {
		p.Points = append(p.Points, point{plotLeft + at(q.forecast), plotSide - at(q.actual)})
	}
	for _, v := range ticks(low, high) {
		p.Ticks = append(p.Ticks, tick{plotLeft + at(v), plotSide - at(v), tickText(v)})
	}
	return p
}

// ticks are the powers of ten between low and high, with their doubles and
// fives where there are few.
func ticks(low, high float64) []float64 {
	steps := []float64{1}
	if high/low < 200 {
		steps = []float64{1, 2, 5}
	}
	var out []float64
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for _, s := range steps {
			if v := s * math.Pow(10, e); v >= low && v <= high {
				out = append(out, v)
			}
		}
	}
	return out
}

func tickText(v float64) string {
	if v < 1 {
		return fmt.Sprintf("%.3g ms", v*1e3)
	}
	return fmt.Sprintf("%.3g s", v)
}
