package simreport

import (
	"time"

	"github.com/spillway-llm/spillway/internal/fleet"
)

// Results is what a set of simulations came to: every arm at every load with every
// seed.
type Results struct {
	Workload string
	Command  string // that makes them again
	Fleet    string // one sentence
	Unit     string // of loads

	Arms  []string // the first is what the others are compared with
	Loads []float64
	Seeds []uint64

	Runs []Run // in any order
}

// Run is one simulation.
type Run struct {
	Arm     string        `json:"policy"`
	Load    float64       `json:"load"`
	Seed    uint64        `json:"seed"`
	Summary fleet.Summary `json:"summary"`
	Judged  time.Duration `json:"-"` // how long the judged requests were sent

	Series *Series `json:"-"` // nil: was not watched
}

// Series is how many requests the router had in flight at each endpoint.
type Series struct {
	Every    time.Duration
	InFlight [][]float64 // by moment, then by endpoint
}

// Cell is one metric of one arm at one load.
type Cell struct {
	Value Estimate

	// Change is the mean over seeds of value / first arm's value with the same
	// seed, minus 1: paired, so that what a seed does to all arms drops out.
	Change Estimate
}

// key of a run.
type key struct {
	arm  string
	load float64
	seed uint64
}

// cells looks up values by arm, load and seed.
type cells struct {
	results Results
	runs    map[key]*Run
}

func (r Results) cells() cells {
	c := cells{r, make(map[key]*Run, len(r.Runs))}
	for i := range r.Runs {
		run := &r.Runs[i]
		c.runs[key{run.Arm, run.Load, run.Seed}] = run
	}
	return c
}

// at estimates a metric of an arm at a load.
func (c cells) at(m Metric, arm string, load float64) Cell {
	var values, changes []float64
	for _, seed := range c.results.Seeds {
		run := c.runs[key{arm, load, seed}]
		if run == nil {
			continue
		}
		v := m.Of(run)
		values = append(values, v)
		if first := c.runs[key{c.results.Arms[0], load, seed}]; first != nil && arm != c.results.Arms[0] {
			changes = append(changes, v/m.Of(first)-1)
		}
	}
	return Cell{estimate(values), estimate(changes)}
}
