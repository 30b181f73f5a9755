package advise

import (
	"math"
	"time"

	"github.com/spillway-llm/spillway/internal/trace"
	"github.com/spillway-llm/spillway/internal/workload"
)

// replayWarmup is the share of a trace's time that does not count: caches fill.
const replayWarmup = 0.1

// Replay is the traffic of items, which must be sorted by time and not be empty,
// at the times of the trace over speed. It is the same with every seed.
func Replay(items []trace.Item, speed float64) func(seed uint64) workload.Plan {
	plan := workload.FromTrace(items, speed)
	plan.Warmup = time.Duration(replayWarmup * float64(items[len(items)-1].At) / speed)
	return Same(plan)
}

// Same is a plan that is the same with every seed.
func Same(plan workload.Plan) func(seed uint64) workload.Plan {
	return func(uint64) workload.Plan { return plan }
}

// stretches are what long traffic is represented by, and apart is the time between
// two of them.
const (
	stretches = 4
	apart     = 5 * time.Second
)

// Stretches is traffic of at most most items, for those that are more: as many
// stretches of equal numbers, evenly over the whole, moved together. Items must be
// sorted by time.
func Stretches(items []trace.Item, most int) []trace.Item {
	if len(items) <= most || most < stretches {
		return items
	}
	each := most / stretches
	out := make([]trace.Item, 0, each*stretches)
	begins := time.Duration(0)
	for i := range stretches {
		from := i * (len(items) - each) / (stretches - 1)
		cut := items[from : from+each]
		for _, item := range cut {
			item.At += begins - cut[0].At
			out = append(out, item)
		}
		begins = out[len(out)-1].At + apart
	}
	return out
}

// Bounds of what EnoughSeeds says, and the requests that all simulations of a
// study are to have together.
const (
	fewestSeeds, mostSeeds = 5, 10
	enoughRequests         = 200_000
)

// EnoughSeeds is with how many seeds a study of that traffic takes about half a
// minute: the fewer requests there are, the more chance there is in them.
func EnoughSeeds(p workload.Plan) int {
	requests := 0
	for s := range p.Sessions {
		if requests += len(s.Turns); p.Limit > 0 && requests >= p.Limit || requests >= enoughRequests {
			break
		}
	}
	n := math.Round(enoughRequests / float64(len(Policies)*max(requests, 1)))
	return int(min(max(n, fewestSeeds), mostSeeds))
}
