package fleet_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

// twoClasses alternates requests of two classes in a Poisson process.
func twoClasses(gap time.Duration, prompt int) workload.Plan {
	return workload.Plan{Sessions: func(yield func(workload.Session) bool) {
		rng := rand.New(rand.NewPCG(1, 1))
		at := time.Duration(0)
		for i := 0; ; i++ {
			at += time.Duration(rng.ExpFloat64() * float64(gap))
			s := workload.Session{Index: i, At: at, Class: []string{"code", "chat"}[i%2]}
			s.Turns = []workload.Turn{{PromptTokens: prompt + rng.IntN(prompt), OutputTokens: 100 + rng.IntN(400)}}
			if !yield(s) {
				return
			}
		}
	}}
}

// speeds runs a world for five minutes and returns, for every endpoint, the
// mean of its speed factor after the first minute and how far from 1 it came.
func speeds(t *testing.T, c fleet.WorldConfig) (mean, farthest []float64) {
	t.Helper()
	n := 0.0
	mean, farthest = make([]float64, len(c.Engines)), make([]float64, len(c.Engines))
	c.Horizon = 5 * time.Minute
	c.Observer = func(s *fleet.Sample) {
		if s.At < time.Minute {
			return
		}
		n++
		for i, e := range s.Endpoints {
			mean[i] += (e.Speed - mean[i]) / n
			farthest[i] = max(farthest[i], math.Abs(e.Speed-1))
		}
	}
	simulate(t, c)
	return mean, farthest
}

// Endpoints that are alike but stream more or fewer tokens a step, because of
// what they are asked, are equally fast: the clock counts steps.
func TestSpeedFactorIgnoresAcceptance(t *testing.T) {
	for _, gap := range []time.Duration{400 * time.Millisecond, 100 * time.Millisecond, 50 * time.Millisecond} {
		for _, prompt := range []int{300, 3000} {
			c := fleet.WorldConfig{
				// In turn, so that every endpoint is asked one class only.
				Engines: engines(standard(t), 4), Router: fleet.RouterConfig{Policy: policy.RoundRobin},
				Plan: twoClasses(gap, prompt), Seed: 1,
			}
			for i := range c.Engines {
				c.Engines[i].Options.Acceptance = map[string]float64{"code": 1.8, "chat": 2.8}
			}
			if _, farthest := speeds(t, c); max(farthest[0], farthest[1], farthest[2], farthest[3]) > 0.05 {
				t.Errorf("a request every %v of %d tokens: factors come as far as %.3f from 1", gap, prompt, farthest)
			}
		}
	}
}

// An endpoint that is slow from the beginning is found to be.
func TestSpeedFactorFindsTheSlowOne(t *testing.T) {
	c := fleet.WorldConfig{
		Engines: engines(standard(t), 4), Router: fleet.RouterConfig{Policy: policy.RoundRobin},
		Plan: twoClasses(100*time.Millisecond, 300), Seed: 1,
	}
	c.Engines[2].Profile = standard(t).Slowed(2)
	c.Engines[2].Class = "same"
	c.Router.Profiles = map[string]physics.Profile{"same": standard(t)}
	mean, _ := speeds(t, c)
	// Shrunk by a prior of 10 s: (30 + 10) / (30/2 + 10).
	for i, want := range []float64{1, 1, 1.6, 1} {
		if math.Abs(mean[i]-want) > 0.05 {
			t.Errorf("endpoint %d has a factor of %.3f, want about %v", i, mean[i], want)
		}
	}
}
