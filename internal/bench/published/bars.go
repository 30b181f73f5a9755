package main

import (
	"math"
	"strings"

	"github.com/spillway-llm/spillway/internal/bench"
)

// The bounds that are the same for all studies.
const (
	clearShare = 0.85 // of the clear pairs of code generation and b2b
	kneeError  = 0.3  // of the published knee
)

// bars judges all studies.
func bars(all []comparison) []bench.Bar {
	var out []bench.Bar
	var clearly, grossly order
	for _, c := range all {
		name := "published_" + identifier(c.study.name)
		out = append(out, bench.Within(name+"_gain", c.study.gain(c.simulated, everywhere), c.study.least, c.study.most)...)
		for _, of := range []reads{ttft, c.study.throughput} {
			grossly = grossly.plus(c.grossOrder(of))
			if c.study.pairs {
				clearly = clearly.plus(c.clearOrder(of, 0))
			}
		}
	}
	out = append(out,
		bench.Bar{Name: "published_order_gross_pairs_wrong", Value: float64(grossly.all - grossly.right), Relation: bench.AtMost},
		bench.Bar{Name: "published_order_clear_pairs_right", Value: clearly.share(), Relation: bench.AtLeast, Bound: clearShare},
	)
	for _, c := range all {
		for a, arm := range arms {
			if c.study.arms[a] == "" {
				continue
			}
			published, simulated := c.knees(a)
			out = append(out, bench.Bar{
				Name:  "published_" + identifier(c.study.name) + "_knee_error_" + identifier(arm.name),
				Value: math.Abs(simulated/published - 1), Relation: bench.AtMost, Bound: kneeError,
			})
		}
	}
	return out
}

func identifier(name string) string { return strings.ReplaceAll(name, "-", "_") }
