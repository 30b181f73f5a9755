package main

import (
	"fmt"
	"math"

	"github.com/spillway-llm/spillway/internal/bench"
)

// The bounds.
const (
	smallTime   = 0.7  // of XGBoost's
	largeTime   = 0.95 // likewise
	squaredLoss = 1.005
	pinballLoss = 1.01
	headCPU     = 45 // seconds
	peakMemory  = 3  // times the binned data
)

func bars(all []comparison, heads []head, m kept) []bench.Bar {
	var out []bench.Bar
	atMost := func(name string, value, bound float64) {
		out = append(out, bench.Bar{Name: name, Value: value, Relation: bench.AtMost, Bound: bound})
	}
	for i, c := range all {
		size := []string{"small", "large"}[i%2]
		if c.Objective == "squared" {
			atMost(fmt.Sprintf("gbdt_time_over_xgboost_%s", size), c.Ours.Wall/c.XGBoost.Wall, []float64{smallTime, largeTime}[i%2])
			atMost(fmt.Sprintf("gbdt_rmse_over_best_%s", size), c.Ours.Loss/math.Min(c.XGBoost.Loss, c.Sklearn.Loss), squaredLoss)
			continue
		}
		atMost(fmt.Sprintf("gbdt_pinball_over_sklearn_%s", size), c.Ours.Loss/c.Sklearn.Loss, pinballLoss)
	}
	cpu, memory := math.Inf(-1), math.Inf(-1)
	for _, h := range heads {
		cpu, memory = max(cpu, h.CPU), max(memory, h.PeakBytes/h.BinnedBytes)
	}
	atMost("gbdt_million_rows_cpu_seconds", cpu, headCPU)
	atMost("gbdt_peak_over_binned", memory, peakMemory)
	atMost("gbdt_monotone_violations", float64(m.Violations), 0)
	return out
}
