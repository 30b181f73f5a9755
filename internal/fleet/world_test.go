package fleet_test

import (
	"context"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

// standard is the profile that the published workloads ran on.
func standard(t testing.TB) physics.Profile {
	t.Helper()
	p, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func engines(p physics.Profile, n int) []fleet.EngineSpec {
	all := make([]fleet.EngineSpec, n)
	for i := range all {
		all[i] = fleet.EngineSpec{Profile: p, Overhead: 8 * time.Millisecond}
	}
	return all
}

func plan(t testing.TB, name string, seed uint64, load float64) workload.Plan {
	t.Helper()
	s, err := workload.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return s.Sessions(seed, load)
}

func simulate(t testing.TB, c fleet.WorldConfig) *fleet.Result {
	t.Helper()
	r, err := fleet.Simulate(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEveryRequestEnds(t *testing.T) {
	for _, c := range []struct {
		workload string
		load     float64
		policy   string
	}{
		{"code-generation", 5, policy.TokenLoad},
		{"reasoning", 10, policy.RoundRobin},
		{"b2b-saas", 3, policy.ActiveRequest},
	} {
		t.Run(c.workload, func(t *testing.T) {
			r := simulate(t, fleet.WorldConfig{
				Engines: engines(standard(t), 4), Router: fleet.RouterConfig{Policy: c.policy},
				Plan: plan(t, c.workload, 1, c.load), Seed: 1,
			})
			s := r.Summary(r.All(), fleet.SLO{})
			if r.Sent == 0 || len(r.Requests) != r.Sent || s.Success != 1 {
				t.Errorf("%d sent, %d ended, success %v", r.Sent, len(r.Requests), s.Success)
			}
		})
	}
}
