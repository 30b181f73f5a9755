package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/predictor"
	"github.com/spillway-llm/spillway/router/route"
	"github.com/spillway-llm/spillway/trainer/gbdt"
)

// The size of what is served: that which the predictor is judged by.
const (
	trees      = 200 // of each of 4 heads
	leavesEach = 31  // of each tree
	fitRows    = 4000
)

// fit makes a bundle that says little more than the prior does, at the cost of
// one that says much.
func fit(ctx context.Context, seed uint64) ([]byte, error) {
	rng := rand.New(rand.NewPCG(seed, 0))
	rows := make([]feature.Vector, fitRows)
	x := make([]float64, len(rows)*feature.Width)
	for i := range rows {
		rows[i] = drawVector(rng)
		rows[i].Wide(x[i*feature.Width:])
	}
	b := bundle.Bundle{LLM: llm, CreatedAt: time.Unix(1_800_000_000, 0), Window: bundle.Window{Rows: len(rows)}, Support: bundle.SupportOf(rows)}
	for t := range b.Heads {
		y := make([]float64, len(rows))
		for i := range y {
			y[i] = 0.05 * rng.NormFloat64()
		}
		o := gbdt.Defaults()
		o.Trees, o.Leaves, o.Threads = trees, leavesEach, 2
		o.Objective, o.Alpha = gbdt.Quantile, 0.5+0.4*float64(t%2)
		f, err := gbdt.Train(ctx, gbdt.Data{FeatureNames: feature.Names(), X: x, Y: y}, o)
		if err != nil {
			return nil, err
		}
		b.Heads[t] = bundle.Head{Forest: f.Text(), Low: -0.25, High: 0.25}
	}
	made, err := bundle.New(b, rows)
	if err != nil {
		return nil, err
	}
	return bundle.Encode(made)
}

// drawVector draws a vector from anywhere that requests of this benchmark may
// be.
func drawVector(rng *rand.Rand) feature.Vector {
	r := feature.Request{PromptTokens: math.Exp(4 + 6*rng.Float64()), ExpectedOutputTokens: 20 + 800*rng.Float64(), MaxOutputTokens: feature.Unknown, Completions: 1}
	r.CachedTokens = math.Floor(r.PromptTokens * rng.Float64())
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
	ttft := 0.02 + (r.UncachedTokens()+l.Ledger.PrefillTokens)/15928
	return feature.Of(r, l, feature.Prior{TTFT: feature.Seconds(ttft), TPOT: feature.Seconds(0.01 + 0.0004*decoding)})
}

// shelf holds one published bundle, for ever.
type shelf struct{ bundle []byte }

func (s shelf) Published(context.Context) ([]predictor.Published, error) {
	return []predictor.Published{{LLM: llm, Version: 1, SHA256: sha256.Sum256(s.bundle), ValidatedAt: time.Now(), MaxAge: time.Hour}}, nil
}

func (s shelf) Bundle(context.Context, int64) ([]byte, error) { return s.bundle, nil }

func (s shelf) Listen(context.Context, func()) error { return nil }

// predictorSetting says what a predictor serves, and where.
type predictorSetting struct{ Address, File string }

func beginPredictor(ctx context.Context, setting []byte) (any, func() spent, error) {
	var at predictorSetting
	if err := json.Unmarshal(setting, &at); err != nil {
		return nil, nil, err
	}
	data, err := os.ReadFile(at.File)
	if err != nil {
		return nil, nil, err
	}
	s := predictor.New(predictor.Config{Evaluator: predictor.Flat, Registerer: prometheus.NewRegistry()}, shelf{data})
	s.Sync(ctx)
	if all := s.Status().LLMs; len(all) != 1 || all[0].State != predictor.Serving {
		return nil, nil, fmt.Errorf("the bundle is not served: %+v", all)
	}
	go func() { _ = s.Run(ctx) }() // all until the process ends
	go s.FollowLoad(ctx)
	go func() {
		if err := s.Serve(ctx, at.Address); err != nil {
			fmt.Fprintln(os.Stderr, "extproc: predictor:", err)
		}
	}()
	return true, used, nil
}

// forecaster asks a predictor for the router. Responses that are played here
// come as no engine's do, which would condemn the forecasts after some dozens
// of them; so it says that each few requests have a new bundle, of which too
// little is known.
type forecaster struct {
	client *predictor.Client
	asked  atomic.Int64
}

const requestsPerBundle = 32

func (f *forecaster) Forecast(ctx context.Context, llm string, vectors []feature.Vector, out []feature.Forecast) (route.Answer, error) {
	info, err := f.client.Forecast(ctx, llm, vectors, out)
	switch {
	case errors.Is(err, predictor.ErrUntrained):
		err = route.ErrUntrained
	case errors.Is(err, predictor.ErrSchema):
		err = route.ErrMismatch
	}
	return route.Answer{Bundle: info.Bundle + f.asked.Add(1)/requestsPerBundle, Validated: info.ValidatedAt, MaxAge: info.MaxAge}, err
}
