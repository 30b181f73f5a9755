package bundle_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/forest"
	"github.com/spillway-llm/spillway/internal/physics"
)

// stump is a tree of one split; it never falls along its column while low <= high.
type stump struct {
	column    int
	threshold float64
	low, high float64
}

func forestOf(t testing.TB, stumps ...stump) *forest.Forest {
	t.Helper()
	trees := make([]forest.Tree, len(stumps))
	for i, s := range stumps {
		trees[i] = forest.Tree{
			Splits: []forest.Split{{Feature: int32(s.column), Threshold: s.threshold, Left: ^0, Right: ^1, Missing: forest.MissingNaN, DefaultLeft: true}},
			Leaves: []forest.Leaf{{Value: s.low}, {Value: s.high}},
		}
	}
	f, err := forest.New(forest.Header{FeatureNames: feature.Names()}, trees)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// vectorOf draws what a router might know.
func vectorOf(rng *rand.Rand) feature.Vector {
	prompt := 1 + rng.Float64()*8000
	r := feature.Request{PromptTokens: prompt, CachedTokens: prompt * rng.Float64(), ExpectedOutputTokens: rng.Float64() * 500, MaxOutputTokens: feature.Unknown, Completions: 1}
	l := feature.Load{
		Scraped: feature.Scraped{Waiting: float64(rng.IntN(20)), Running: float64(rng.IntN(64)), KVUsed: rng.Float64(), Age: feature.Seconds(rng.Float64())},
		Ledger:  feature.Ledger{Requests: float64(rng.IntN(64)), PrefillTokens: rng.Float64() * 20000},
		Profile: feature.Profile{PeakPrefillThroughput: 15928, MaxBatchedTokens: 8192, MaxNumSeqs: 256, KVCapacityTokens: 500000, SpeedFactor: 0.5 + rng.Float64()},
	}
	return feature.Of(r, l, feature.Prior{TTFT: feature.Seconds(0.03 + 2*rng.Float64()), TPOT: feature.Seconds(0.01 + 0.05*rng.Float64())})
}

func vectorsOf(seed uint64, n int) []feature.Vector {
	rng := rand.New(rand.NewPCG(seed, 1))
	vectors := make([]feature.Vector, n)
	for i := range vectors {
		vectors[i] = vectorOf(rng)
	}
	return vectors
}

var created = time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)

// draftOf is a bundle before New. Its heads are monotone in every column they
// look at.
func draftOf(t testing.TB, examples []feature.Vector) bundle.Bundle {
	kv := feature.Index("kv_used")
	heads := [bundle.Targets]*forest.Forest{
		forestOf(t, stump{feature.ColumnPriorTTFT, 1, -0.1, 0.1}, stump{kv, 0.5, -0.05, 0.3}),
		forestOf(t, stump{feature.ColumnPriorTTFT, 0.7, 0.05, 0.2}, stump{kv, 0.7, 0, 0.2}),
		forestOf(t, stump{feature.ColumnPriorTPOT, 0.03, -0.2, 0.1}),
		forestOf(t, stump{feature.ColumnPriorTPOT, 0.02, 0, 0.15}),
	}
	b := bundle.Bundle{
		LLM:          "qwen3-32b",
		CreatedAt:    created,
		Seed:         math.MaxUint64,
		Window:       bundle.Window{Rows: len(examples), From: created.Add(-time.Hour), To: created},
		Coefficients: map[string]physics.Coefficients{"h100-tp2": {A: 0.01, B: 1e-5, C: 1e-9, D: 1e-5, E: 1e-8}, "h200": {A: 0.02}},
		Fitted:       fittedOf(),
		Support:      bundle.SupportOf(examples),
	}
	for i, f := range heads {
		b.Heads[i] = bundle.Head{Forest: f.Text(), Low: -0.25, High: 0.25}
	}
	b.Heads[bundle.TTFTP90].Shift, b.Heads[bundle.TTFTP90].Damping = 0.05, 0.25
	return b
}

// fittedOf is a prior with terms for TTFT and none for TPOT.
func fittedOf() physics.Fitted {
	first := physics.Ramp{Column: feature.Index("waiting"), To: 1}
	return physics.Fitted{Peak: 2 * 15928, TTFT: physics.Curve{Min: 0.2, Max: 2.5, Terms: []physics.Term{
		{Seconds: 0.6, Ramp: physics.Ramp{Column: feature.ColumnPriorTTFT}},
		{Seconds: 0.01, Ramp: physics.Ramp{Column: physics.Constant}},
		{Seconds: 0.002, Ramp: physics.Ramp{Column: feature.Index("waiting"), From: 2, To: 9}},
		{Seconds: 1e-5, Ramp: physics.Ramp{Column: feature.Index("inflight_prefill_tokens")}, Times: &first},
	}}}
}

func bundleOf(t testing.TB) *bundle.Bundle {
	t.Helper()
	examples := vectorsOf(7, 200)
	b, err := bundle.New(draftOf(t, examples), examples)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func evaluatorOf(t testing.TB, b *bundle.Bundle) *bundle.Evaluator {
	t.Helper()
	e, err := b.Evaluator()
	if err != nil {
		t.Fatal(err)
	}
	return e
}
