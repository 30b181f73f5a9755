package main

import (
	"github.com/spillway-llm/spillway/internal/bench/trial"
	"github.com/spillway-llm/spillway/router/policy"
)

// world is one of those of package trial, as failures are judged in it.
type world struct {
	trial.World
	matched string // the better of token-load and active-request in it
	fleets  int    // that one seed stands for
}

// worlds are all. Each has the matched configuration that fares better in it on
// development seeds: token-load has a TTFT p99 35 % above active-request's in mixed
// traffic, and is 25 % slower end to end in conversations; active-request has twice
// token-load's TTFT p99 in retrieval.
//
// In mixed traffic two runs that differ in one tie have TTFT p99s whose logarithms
// differ by 0.30 (standard deviation of 100 seeds from 1001), in retrieval by 0.12, in
// conversations by 0.04. With one fleet a seed the pooled interval of 30 seeds would be
// 4 points either way, which a router that does no harm at all would exceed a bound of
// 5 % with one time in three. Five fleets of mixed traffic, which are cheap, make it
// 2.3 points, and one time in a hundred.
func worlds() []world {
	var out []world
	for _, w := range trial.Worlds {
		x := world{World: w, matched: policy.ActiveRequest, fleets: 1}
		switch w.Workload {
		case "mixed":
			x.fleets = 5
		case "rag":
			x.matched = policy.TokenLoad
		}
		out = append(out, x)
	}
	return out
}

// seedOf is the seed of one of a world's fleets, of which there are fleets times as
// many as seeds: the next after the given ones, which follow each other.
func seedOf(seeds []uint64, fleet int) uint64 {
	n := len(seeds)
	return seeds[fleet%n] + uint64(fleet/n*n)
}

// bySeed averages the fleets of each seed; logs has one value for each fleet.
func bySeed(logs []float64, seeds int) []float64 {
	out := make([]float64, seeds)
	for i, l := range logs {
		out[i%seeds] += l * float64(seeds) / float64(len(logs))
	}
	return out
}
