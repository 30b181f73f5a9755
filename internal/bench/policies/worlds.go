package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/workload"
)

// regime is a workload as it is judged.
type regime struct {
	name   string
	group  group
	length time.Duration // of arrivals; 0: the workload's own
	loads  []float64     // published ones, or
	knee   float64       // of which shares are taken; found by --knees
}

// lowAndHigh are the shares of the knee at which synthetic traffic is judged, and
// replayShares those of traces.
var (
	lowAndHigh   = []float64{0.6, 0.9}
	replayShares = []float64{0.6, 0.8, 0.95}
)

// regimes are the synthetic worlds. Lengths are such that each has a few thousand
// requests or, where prompts are long, runs for some time.
var regimes = []regime{
	{name: "code-generation", group: single, loads: []float64{30, 70}},
	{name: "reasoning", group: single, loads: []float64{150, 350}},
	{name: "b2b-saas", group: single, loads: []float64{20, 46}},
	{name: "interactive-chat", group: single, length: 3 * time.Minute, knee: 109},
	{name: "rag", group: single, length: 2 * time.Minute, knee: 310},
	{name: "mixed", group: mixed, length: 20 * time.Minute, knee: 4.07},
	{name: "shifting", group: shifting, length: 16 * time.Minute, knee: 0.898},
	{name: "heterogeneous", group: heterogeneous, length: 20 * time.Minute, knee: 3.42},
	{name: "degraded", group: degraded, length: 20 * time.Minute, knee: 3.59},
}

// sources are the traces. Their knees are of what is judged.
var sources = []source{
	{name: "azure-conversation", pattern: "azure-2023-conv*.csv.gz", most: 8000, knee: 74.7},
	{name: "azure-code", pattern: "azure-2023-code*.csv.gz", most: 8000, knee: 8.98},
	{name: "mooncake-conversation", pattern: "mooncake-conversation*.jsonl.gz", most: 8000, knee: 6.38},
}

// allWorlds are those whose name contains one of the words; without words all.
func allWorlds(data string, words []string) ([]*world, error) {
	wanted := func(name string) bool {
		for _, word := range words {
			if strings.Contains(name, word) {
				return true
			}
		}
		return len(words) == 0
	}
	var out []*world
	for _, r := range regimes {
		if !wanted(r.name) {
			continue
		}
		spec, err := workload.Named(r.name)
		if err != nil {
			return nil, err
		}
		if r.length > 0 {
			spec.Duration = r.length
		}
		w := &world{name: r.name, group: r.group, unit: spec.Unit, spec: spec, loads: r.loads}
		if r.knee > 0 {
			w.at(r.knee, lowAndHigh)
		}
		out = append(out, w)
	}
	for _, s := range sources {
		if !wanted(s.name) {
			continue
		}
		learned, judged, err := s.read(data)
		if err != nil {
			return nil, err
		}
		w := &world{name: s.name, group: replayed, unit: "requests/s", learned: learned, judged: judged}
		w.at(s.knee, replayShares)
		out = append(out, w)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("--worlds: none is called so")
	}
	return out, nil
}

// at sets the loads to shares of the knee.
func (w *world) at(knee float64, shares []float64) {
	w.knee, w.shares, w.loads = knee, shares, nil
	for _, share := range shares {
		w.loads = append(w.loads, knee*share)
	}
}
