// Package trial is what benchmarks in simulation have in common that compare the
// router with itself on equal requests: fleets that the router only nearly knows,
// a bundle learned from one of them, runs side by side, and the interval of a
// paired difference.
package trial

import (
	"fmt"
	"time"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

// World is one kind of traffic on endpoints that are only nearly what the router
// believes (fleet.Perturb), each time others.
type World struct {
	Name     string
	Workload string        // of package workload
	Knee     float64       // requests/s of ten endpoints
	Tens     int           // of endpoints; 0: one
	Before   time.Duration // of operation, which is not judged: half of it at half of the load, with caches that fill
	Judged   time.Duration // of arrivals after it; a multiple of half of that
}

// The knee of a fleet is the highest load, tried in steps of 5 %, at which mean
// slowdown (end-to-end latency over that of the request alone, each class alike)
// is below 3 with the matched configuration deciding: seeds 1001 to 1003, 10
// minutes each, found by
//
//	go run ./internal/bench/failures --knees
const (
	kneeMixed = 4.42
	kneeChat  = 66.0
	kneeRAG   = 306.0
)

// Worlds are those that failures and signals are judged in: decode-bound traffic,
// prefill-bound traffic, and a mixture that nothing is right for.
var Worlds = []World{
	{Name: "mixed", Workload: "mixed", Knee: kneeMixed, Before: 5 * time.Minute, Judged: 20 * time.Minute},
	{Name: "interactive-chat", Workload: "interactive-chat", Knee: kneeChat, Before: time.Minute, Judged: 3 * time.Minute},
	{Name: "rag", Workload: "rag", Knee: kneeRAG, Before: 30 * time.Second, Judged: 90 * time.Second},
}

const (
	ten     = 10
	profile = "qwen3-32b-h100-tp2-routing" // what the router believes of all engines
	class   = "h100"
)

// Config is the world at a share of its knee, with the matched configuration
// deciding. Every third engine has a KV cache a tenth smaller than the others: it
// is another build, which a bundle can tell by that.
func (w *World) Config(seed uint64, share float64) (fleet.WorldConfig, error) {
	c, spec, err := w.fleet(seed)
	if err != nil {
		return c, err
	}
	each := w.Before / 2
	load := share * w.Knee * float64(w.tens())
	loads := []float64{load / 2}
	for range 1 + int(w.Judged/each) {
		loads = append(loads, load)
	}
	c.Plan = spec.Rising(seed, loads, each)
	c.Plan.Warmup = w.Before
	return c, nil
}

func (w *World) tens() int { return max(1, w.Tens) }

// fleet is the world without requests.
func (w *World) fleet(seed uint64) (fleet.WorldConfig, workload.Spec, error) {
	spec, err := workload.Named(w.Workload)
	if err != nil {
		return fleet.WorldConfig{}, spec, fmt.Errorf("world %s: %w", w.Name, err)
	}
	nominal, err := physics.Named(profile)
	if err != nil {
		return fleet.WorldConfig{}, spec, fmt.Errorf("world %s: %w", w.Name, err)
	}
	c := fleet.WorldConfig{
		Seed:   seed,
		Router: fleet.RouterConfig{Policy: policy.Predicted, Profiles: map[string]physics.Profile{class: nominal}},
	}
	for i := range ten * w.tens() {
		e := fleet.EngineSpec{Class: class}
		e.Profile, e.Overhead = fleet.Perturb(nominal, seed, i)
		if Marked(i) {
			e.Profile.KVCapacityTokens = e.Profile.KVCapacityTokens * 9 / 10
		}
		c.Engines = append(c.Engines, e)
	}
	return c, spec, nil
}

// Marked reports whether an engine is one of those with a smaller KV cache.
func Marked(engine int) bool { return engine%3 == 0 }

// MarkedBelow is between the KV capacities, in tokens, of the engines that are
// Marked and of the others.
func MarkedBelow() (float64, error) {
	p, err := physics.Named(profile)
	if err != nil {
		return 0, err
	}
	return 0.95 * float64(p.KVCapacityTokens), nil
}
