package advise

import (
	"time"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/workload"
)

// What the router calls endpoints that are as the profile says, and others.
const nominal, slow = "nominal", "slow"

// Nearly are n engines of which the router believes what the profile says, and
// which are only nearly so, with each seed otherwise (fleet.Perturb). Slow says which
// of them are slower: those that are from the beginning the router knows as a class
// of their own, and of those that become slow, when the run of length has come so
// far, it is not told.
func Nearly(p physics.Profile, n int, slower workload.Slowdown, length time.Duration) func(seed uint64) Fleet {
	return func(seed uint64) Fleet {
		out := Fleet{Believed: map[string]physics.Profile{nominal: p, slow: p.Slowed(max(slower.Factor, 1))}}
		for i := range n {
			e := fleet.EngineSpec{Class: nominal}
			if i >= n-slower.Endpoints(n) {
				if slower.From == 0 {
					e.Class = slow
				} else {
					e.SlowFrom, e.SlowFactor = time.Duration(slower.From*float64(length)), slower.Factor
				}
			}
			e.Profile, e.Overhead = fleet.Perturb(out.Believed[e.Class], seed, i)
			out.Engines = append(out.Engines, e)
		}
		return out
	}
}

// Middling is a profile in the middle of engines, of which there must be one: every
// coefficient and limit is their mean.
func Middling(engines []fleet.EngineSpec) physics.Profile {
	out := engines[0].Profile
	out.Coefficients, out.PeakPrefillThroughput = physics.Coefficients{}, 0
	n := float64(len(engines))
	var sequences, capacity float64
	for i := range engines {
		p := &engines[i].Profile
		c, to := &p.Coefficients, &out.Coefficients
		to.A, to.B, to.C, to.D, to.E = to.A+c.A/n, to.B+c.B/n, to.C+c.C/n, to.D+c.D/n, to.E+c.E/n
		out.PeakPrefillThroughput += p.PeakPrefillThroughput / n
		sequences, capacity = sequences+float64(p.MaxNumSeqs)/n, capacity+float64(p.KVCapacityTokens)/n
	}
	out.MaxNumSeqs, out.KVCapacityTokens = max(1, int(sequences)), max(1, int(capacity))
	return out
}
