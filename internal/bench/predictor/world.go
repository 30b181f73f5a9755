package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// What is served: the size of a bundle that the bars are about.
const (
	llm        = "bench"
	trees      = 200 // of each head
	leavesEach = 31  // of each tree
	fitRows    = 20_000
)

// world makes what is asked and what is answered from.
type world struct{ rng *rand.Rand }

func newWorld(seed uint64) world { return world{rand.New(rand.NewPCG(seed, 0))} }

// request draws one request and its vector for each of so many endpoints. What
// is the request's own is the same in all of them.
func (w world) request(candidates int) []feature.Vector {
	rng := w.rng
	prompt := math.Exp(4 + 6*rng.Float64())
	r := feature.Request{PromptTokens: prompt, ExpectedOutputTokens: 20 + 800*rng.Float64(), MaxOutputTokens: feature.Unknown, Completions: 1}
	if rng.IntN(2) == 0 {
		r.MaxOutputTokens = float64(int(256) << rng.IntN(5))
	}
	vectors := make([]feature.Vector, candidates)
	for i := range vectors {
		r.CachedTokens = 0
		if rng.IntN(4) == 0 {
			r.CachedTokens = prompt * rng.Float64()
		}
		inflight := float64(rng.IntN(96))
		decoding := math.Round(inflight * rng.Float64())
		l := feature.Load{
			Scraped: feature.Scraped{Waiting: float64(rng.IntN(20)), Running: inflight, KVUsed: rng.Float64(), Age: feature.Seconds(rng.Float64())},
			Ledger: feature.Ledger{
				Requests: inflight, Decoding: decoding, PrefillTokens: (inflight - decoding) * 900 * rng.Float64(),
				ContextTokens: decoding * 1500 * rng.Float64(), SinceScrape: float64(rng.IntN(5)), SinceScrapeTok: 4000 * rng.Float64(),
			},
			Profile: feature.Profile{PeakPrefillThroughput: 15928, MaxBatchedTokens: 8192, MaxNumSeqs: 256, KVCapacityTokens: 500000, SpeedFactor: 0.5 + rng.Float64()},
		}
		if rng.IntN(20) == 0 {
			l.Scraped = feature.Scraped{Waiting: feature.Unknown, Running: feature.Unknown, KVUsed: feature.Unknown, Age: feature.Seconds(feature.Unknown)}
		}
		ttft := 0.02 + (r.UncachedTokens()+l.Ledger.PrefillTokens)/15928*l.Profile.SpeedFactor
		vectors[i] = feature.Of(r, l, feature.Prior{TTFT: feature.Seconds(ttft), TPOT: feature.Seconds(0.01 + 0.0004*decoding)})
	}
	return vectors
}

// residual draws what a forest learns: how far from its prior a latency is, by
// a little of everything and by chance.
func (w world) residual(v *feature.Vector, target bundle.Target) float64 {
	known := func(column string) float64 {
		if x := float64(v[feature.Index(column)]); !math.IsNaN(x) {
			return x
		}
		return 0
	}
	sum := 0.3*math.Sin(known("prompt_tokens")/2000+float64(target)) +
		0.4*known("kv_used")*known("kv_used") +
		0.02*known("waiting") +
		0.003*known("running")*math.Cos(known("inflight_context_tokens")/30000) +
		0.2*math.Log(1+known("inflight_prefill_tokens")/1000)*known("speed_factor") -
		0.1*math.Log(float64(v[feature.ColumnPriorTTFT]))
	return sum + 0.2*w.rng.NormFloat64()
}

// bundle fits the four heads and returns the bundle as it is published.
func (w world) bundle(ctx context.Context) ([]byte, error) {
	rows := make([]feature.Vector, 0, fitRows)
	for len(rows) < fitRows {
		rows = append(rows, w.request(16)...)
	}
	x := make([]float64, len(rows)*feature.Width)
	for i := range rows {
		rows[i].Wide(x[i*feature.Width:])
	}
	b := bundle.Bundle{
		LLM: llm, CreatedAt: time.Unix(1_800_000_000, 0), Window: bundle.Window{Rows: len(rows)},
		Support: bundle.SupportOf(rows),
	}
	for t := range b.Heads {
		y := make([]float64, len(rows))
		for i := range rows {
			y[i] = w.residual(&rows[i], bundle.Target(t))
		}
		opts := gbdt.Defaults()
		opts.Trees, opts.Leaves, opts.Threads = trees, leavesEach, 2
		opts.Objective, opts.Alpha = gbdt.Quantile, 0.5+0.4*float64(t%2)
		f, err := gbdt.Train(ctx, gbdt.Data{FeatureNames: feature.Names(), X: x, Y: y}, opts)
		if err != nil {
			return nil, err
		}
		text := f.Text()
		if n := bytes.Count(text, fmt.Appendf(nil, "\nnum_leaves=%d\n", leavesEach)); n != trees {
			return nil, fmt.Errorf("head %s has %d trees of %d leaves, want %d", bundle.Target(t), n, leavesEach, trees)
		}
		b.Heads[t] = bundle.Head{Forest: text, Low: -2, High: 2}
	}
	made, err := bundle.New(b, rows)
	if err != nil {
		return nil, err
	}
	return bundle.Encode(made)
}
