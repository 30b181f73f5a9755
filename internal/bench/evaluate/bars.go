package main

import (
	"fmt"
	"slices"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/bench/trial"
)

// The bounds.
const (
	leastSign    = 0.95 // share of the decisive pairs
	mostError    = 0.05 // median, absolute
	leastCovered = 0.90
	mostMean     = 0.01 // that exploring 1 % adds to mean TTFT, at the upper end of the interval
	mostP99      = 0.05 // and to its p99
)

// barsOf are those of an instrument in a group of worlds.
func barsOf(all []*pair, i instrument, g group, name string) (out []bench.Bar) {
	for q := range quantities {
		s := scoreOf(all, i, q, g)
		of := fmt.Sprintf("%s_%s", name, [quantities]string{"ttft", "e2e"}[q])
		out = append(out,
			bench.Bar{Name: of + "_sign", Value: float64(s.right) / float64(s.decisive), Relation: bench.AtLeast, Bound: leastSign},
			bench.Bar{Name: of + "_median_error", Value: s.median, Relation: bench.AtMost, Bound: mostError},
			bench.Bar{Name: of + "_coverage", Value: s.covered, Relation: bench.AtLeast, Bound: leastCovered},
		)
	}
	return out
}

// broken reports whether the fitted simulator misses a bar over all worlds and
// does so in those with a mechanism that it lacks: then switchback is the primary
// instrument.
func broken(all []*pair) bool { return misses(all, every) && misses(all, misspecified) }

// misses reports whether the fitted simulator misses a bar in a group of worlds.
func misses(all []*pair, g group) bool {
	return slices.ContainsFunc(barsOf(all, simulator, g, ""), func(b bench.Bar) bool { return !b.Holds() })
}

// bars judges the primary instrument over all worlds, the fitted simulator also
// where it is not that in worlds that it can be right about, and exploration.
func bars(studies []*study, prices []price) (out []bench.Bar) {
	all := pairsOf(studies)
	if broken(all) {
		out = append(out, barsOf(all, switchback, every, "switchback")...)
		out = append(out, barsOf(all, simulator, specified, "simulator_specified")...)
	} else {
		out = append(out, barsOf(all, simulator, every, "simulator")...)
	}
	p := pooled(prices)
	return append(out,
		bench.Bar{Name: "exploring_mean_ttft", Value: trial.ChangeOf(p.mean).High, Relation: bench.AtMost, Bound: mostMean},
		bench.Bar{Name: "exploring_p99_ttft", Value: trial.ChangeOf(p.p99).High, Relation: bench.AtMost, Bound: mostP99},
	)
}

func pairsOf(studies []*study) (all []*pair) {
	for _, s := range studies {
		for i := range s.pairs {
			all = append(all, &s.pairs[i])
		}
	}
	return all
}
