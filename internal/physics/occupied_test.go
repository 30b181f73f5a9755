package physics_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
)

// TestOccupiedFillsFullBatches: requests alike, as many as the batch takes,
// occupy the engine for as long as their prefill and their steps take.
func TestOccupiedFillsFullBatches(t *testing.T) {
	p := profile(t)
	c := p.Coefficients
	load := idle(p).Profile
	for _, r := range []feature.Request{
		{PromptTokens: 400, ExpectedOutputTokens: 200, Completions: 1},                        // as many as sequences
		{PromptTokens: 30_000, CachedTokens: 20_000, ExpectedOutputTokens: 1, Completions: 1}, // as many as the cache holds
		{PromptTokens: 8_000, ExpectedOutputTokens: 2_000, Completions: 1},
	} {
		context := r.PromptTokens + r.ExpectedOutputTokens/2
		n := math.Min(load.MaxNumSeqs, load.KVCapacityTokens/context)
		want := n*float64(c.Work(r.PromptTokens, r.UncachedTokens())) + r.ExpectedOutputTokens*float64(c.Step(n, n*context))
		near(t, "occupied", feature.Seconds(n)*physics.Occupied(c, r, load), want)
		slow := load
		slow.SpeedFactor = 1.5
		near(t, "occupied at a slow one", feature.Seconds(n)*physics.Occupied(c, r, slow), 1.5*want)
	}
	unknown := feature.Profile{MaxNumSeqs: feature.Unknown, KVCapacityTokens: feature.Unknown, SpeedFactor: feature.Unknown}
	r := feature.Request{PromptTokens: 1000, ExpectedOutputTokens: feature.Unknown, Completions: 1}
	near(t, "prefill alone", physics.Occupied(c, r, unknown), float64(c.Work(1000, 1000)))
}

func TestOccupiedGrowsWithTheRequest(t *testing.T) {
	p := profile(t)
	load := idle(p).Profile
	rapid.Check(t, func(t *rapid.T) {
		tokens := func(name string, most float64) float64 { return math.Floor(rapid.Float64Range(0, most).Draw(t, name)) }
		r := feature.Request{PromptTokens: 1 + tokens("prompt", 1e5), ExpectedOutputTokens: tokens("output", 1e4), Completions: 1 + tokens("more", 3)}
		r.CachedTokens = math.Floor(r.PromptTokens * rapid.Float64Range(0, 1).Draw(t, "cached"))
		takes := physics.Occupied(p.Coefficients, r, load)
		if !(takes > 0) {
			t.Fatalf("%+v takes %v", r, takes)
		}
		for _, more := range []func(*feature.Request){
			func(r *feature.Request) { r.PromptTokens += 100 },
			func(r *feature.Request) { r.CachedTokens = math.Floor(r.CachedTokens / 2) },
			func(r *feature.Request) { r.ExpectedOutputTokens += 10 },
			func(r *feature.Request) { r.Completions++ },
		} {
			larger := r
			more(&larger)
			if physics.Occupied(p.Coefficients, larger, load) < takes {
				t.Fatalf("%+v takes less than %+v", larger, r)
			}
		}
	})
}
