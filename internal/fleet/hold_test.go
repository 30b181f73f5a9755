package fleet_test

import (
	"context"
	"testing"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/workload"
	"github.com/spillway-llm/spillway/router/policy"
)

// What an endpoint holds from the beginning is found by the router and by the
// engine, and of more than fits what was used last is left.
func TestCachesHoldWhatTheySayFromTheBeginning(t *testing.T) {
	c := forecasting(t)
	c.Engines = c.Engines[:2]
	prompt := func(first uint64, blocks int) workload.Turn {
		turn := workload.Turn{PromptTokens: 64*blocks + 10, OutputTokens: 4, BlockTokens: 64}
		for i := range blocks {
			turn.Blocks = append(turn.Blocks, first<<32+uint64(i))
		}
		turn.Answered = turn.Blocks
		return turn
	}
	for i := range c.Engines {
		c.Engines[i].Profile.KVCapacityTokens = 64 * 60
	}
	c.Engines[1].Holds = []workload.Turn{prompt(1, 40), prompt(2, 40)}
	c.Router = fleet.RouterConfig{Policy: policy.TokenLoad}
	c.Plan = workload.Plan{Sessions: func(yield func(workload.Session) bool) {
		_ = yield(workload.Session{Turns: []workload.Turn{prompt(2, 40)}}) &&
			yield(workload.Session{Index: 1, At: 1e9, Turns: []workload.Turn{prompt(1, 40)}})
	}}
	r, err := fleet.Simulate(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	last, first := r.Requests[0], r.Requests[1]
	if last.Endpoint != 1 || last.CachedTokens != 64*40 || last.MatchedTokens != 64*40 {
		t.Errorf("what was used last: %+v", last)
	}
	if first.Endpoint != 1 || first.CachedTokens == 0 || first.CachedTokens >= 64*40 {
		t.Errorf("what was used first: %+v", first)
	}
}
