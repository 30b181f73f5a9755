package fleet

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/workload"
)

// EngineSpec is one endpoint of a world.
type EngineSpec struct {
	Profile  physics.Profile
	Class    string        // as the router sees it; "": the profile's name
	Overhead time.Duration // holds every request this long before it joins the line

	// JoinsAt is when the router first meets it, in order of the engines; 0:
	// before the world begins.
	JoinsAt time.Duration

	// From SlowFrom on every step takes SlowFactor times as long; 0 and 1 mean
	// that it never slows.
	SlowFrom   time.Duration
	SlowFactor float64

	// Holds are prompts whose named blocks the cache holds when the world begins, and
	// of which the router knows: what was used last comes last.
	Holds []workload.Turn

	Options Options
}

// endpoint is one EngineSpec at work: one engine, or one for each data-parallel
// rank, behind one address.
type endpoint struct {
	spec     EngineSpec
	ranks    []*Engine
	kvTokens float64 // of all ranks
}

func newEndpoint(spec EngineSpec, seed uint64, index, blockTokens int) (*endpoint, error) {
	spec.Profile.BlockTokens = blockTokens
	if spec.Class == "" {
		spec.Class = spec.Profile.Name
	}
	if spec.SlowFactor == 0 {
		spec.SlowFactor = 1
	}
	e := &endpoint{spec: spec}
	noise := rand.New(rand.NewPCG(seed, streamEngines+uint64(index)))
	for range max(1, spec.Options.Ranks) {
		engine, err := New(Config{Profile: spec.Profile, Overhead: spec.Overhead, Noise: noise, Options: spec.Options})
		if err != nil {
			return nil, fmt.Errorf("engine %d: %w", index, err)
		}
		e.ranks = append(e.ranks, engine)
		e.kvTokens += float64(engine.Blocks() * blockTokens)
	}
	if err := e.ranks[0].SetSlowFactor(spec.SlowFactor); err != nil {
		return nil, fmt.Errorf("engine %d: %w", index, err)
	}
	if spec.SlowFrom > 0 {
		e.slow(1)
	}
	return e, nil
}

// slow makes all steps from now on factor times as long.
func (e *endpoint) slow(factor float64) {
	for _, r := range e.ranks {
		_ = r.SetSlowFactor(factor) // was accepted once
	}
}

// rank is the one that takes the next request: the shortest line, as vLLM's
// own balancer between data-parallel ranks counts it.
func (e *endpoint) rank() int {
	const perWaiting = 4 // a request that waits weighs as many that run
	best, least := 0, 0
	for i, r := range e.ranks {
		m := r.Metrics()
		if load := perWaiting*(m.Waiting+r.arriving.len()) + m.Running; i == 0 || load < least {
			best, least = i, load
		}
	}
	return best
}

// metrics are those of all ranks together.
func (e *endpoint) metrics(of func(*Engine) Metrics) Metrics {
	sum := of(e.ranks[0])
	for _, r := range e.ranks[1:] {
		m := of(r)
		sum.add(&m)
	}
	sum.KVUsed /= float64(len(e.ranks))
	return sum
}
