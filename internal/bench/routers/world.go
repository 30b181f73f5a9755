package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

const (
	profile = "qwen3-32b-h100-tp2-routing"
	class   = "h100"
	engines = 10

	// knee is the greatest load in requests/s, to 0.2, that one router carries for
	// as long as a run takes, whatever engines and requests a seed draws: on each
	// of the ten development seeds from 1001 on its TTFT p90 stays below a second.
	// Above it the prefixes in use outgrow the caches of the unluckiest seed, and
	// whether its TTFT p90 is half a second or ten depends on chance, with one
	// router as with four. --knee shows it.
	knee = 3.6

	// shareDelay is how long what one router does takes until the others know:
	// what a router waits for more to tell, and as much again on the way.
	shareDelay = 20 * time.Millisecond
)

// arm is one way to put routers before the fleet.
type arm struct {
	name     string
	replicas fleet.Replicas
}

// world is the fleet of one seed under a load of mixed traffic. Its engines are
// only nearly what the routers believe.
func world(seed uint64, rate float64, length time.Duration, replicas fleet.Replicas) (fleet.WorldConfig, error) {
	nominal, err := physics.Named(profile)
	if err != nil {
		return fleet.WorldConfig{}, err
	}
	spec, err := workload.Named("mixed")
	if err != nil {
		return fleet.WorldConfig{}, err
	}
	spec.Duration = length
	plan := spec.Open(seed, rate)
	c := fleet.WorldConfig{
		Seed: seed, Plan: plan, Replicas: replicas,
		Router: fleet.RouterConfig{
			Policy: policy.Predicted, Forecaster: fleet.PriorForecaster{},
			Profiles: map[string]physics.Profile{class: nominal},
		},
	}
	for i := range engines {
		p, overhead := fleet.Perturb(nominal, seed, i)
		c.Engines = append(c.Engines, fleet.EngineSpec{Profile: p, Class: class, Overhead: overhead})
	}
	return c, nil
}

// simulate runs one arm with one seed.
func simulate(ctx context.Context, seed uint64, rate float64, length time.Duration, a arm) (*fleet.Result, error) {
	c, err := world(seed, rate, length, a.replicas)
	if err != nil {
		return nil, err
	}
	r, err := fleet.Simulate(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%s, seed %d: %w", a.name, seed, err)
	}
	return r, nil
}

// each runs one arm with every seed, as many at once as there are processors.
func each(ctx context.Context, seeds []uint64, rate float64, length time.Duration, a arm, done func()) ([]*fleet.Result, error) {
	results := make([]*fleet.Result, len(seeds))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i, seed := range seeds {
		work.Go(func() (err error) {
			results[i], err = simulate(ctx, seed, rate, length, a)
			done()
			return err
		})
	}
	return results, work.Wait()
}
