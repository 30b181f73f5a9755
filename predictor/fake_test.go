package predictor_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/forest"
	"github.com/spillway-llm/spillway/predictor"
)

const llm = "qwen3-32b"

// shelf is a Source in memory.
type shelf struct {
	mu        sync.Mutex
	published map[string]predictor.Published
	bundles   map[int64][]byte
	err       error // of Published
	fetchErr  error // of Bundle
	looks     int
	fetches   int

	listening func(ctx context.Context, changed func()) error // nil cannot notify
}

func newShelf() *shelf {
	return &shelf{published: map[string]predictor.Published{}, bundles: map[int64][]byte{}}
}

func (s *shelf) Published(context.Context) ([]predictor.Published, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	var all []predictor.Published
	for _, p := range s.published {
		all = append(all, p)
	}
	return all, s.err
}

func (s *shelf) Bundle(_ context.Context, version int64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetches++
	data, ok := s.bundles[version]
	if !ok {
		return nil, errors.New("no such bundle")
	}
	return data, s.fetchErr
}

func (s *shelf) Listen(ctx context.Context, changed func()) error {
	if s.listening == nil {
		return nil
	}
	return s.listening(ctx, changed)
}

// publish points the LLM of the tests at data, which it stores as version.
func (s *shelf) publish(version int64, data []byte) {
	s.publishSum(version, data, sha256.Sum256(data))
}

func (s *shelf) publishSum(version int64, data []byte, sum [sha256.Size]byte) {
	s.change(func() {
		s.bundles[version] = data
		s.published[llm] = predictor.Published{LLM: llm, Version: version, SHA256: sum, ValidatedAt: time.Now(), MaxAge: time.Hour}
	})
}

func (s *shelf) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// bundleOf returns a bundle whose four heads add about level to every prior.
func bundleOf(t testing.TB, level float64) *bundle.Bundle {
	t.Helper()
	examples := vectorsOf(7, 64)
	b := bundle.Bundle{LLM: llm, CreatedAt: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), Support: bundle.SupportOf(examples)}
	for i := range b.Heads {
		stump := func(column int, threshold, low, high float64) forest.Tree {
			return forest.Tree{
				Splits: []forest.Split{{Feature: int32(column), Threshold: threshold, Left: ^0, Right: ^1, Missing: forest.MissingNaN}},
				Leaves: []forest.Leaf{{Value: low}, {Value: high}},
			}
		}
		f, err := forest.New(forest.Header{FeatureNames: feature.Names()}, []forest.Tree{
			stump(feature.Index("kv_used"), 0.5, level, level+0.1),
			stump(feature.ColumnPromptTokens, 3000, -0.01, 0.02*float64(i)),
		})
		if err != nil {
			t.Fatal(err)
		}
		b.Heads[i] = bundle.Head{Forest: f.Text(), Low: -1, High: 1}
	}
	made, err := bundle.New(b, examples)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func encoded(t testing.TB, b *bundle.Bundle) []byte {
	t.Helper()
	data, err := bundle.Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// forecastsOf is what b makes of the vectors, without a predictor.
func forecastsOf(t testing.TB, b *bundle.Bundle, vectors []feature.Vector) []feature.Forecast {
	t.Helper()
	e, err := b.Evaluator()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]feature.Forecast, len(vectors))
	e.Evaluate(vectors, out)
	return out
}

func vectorsOf(seed uint64, n int) []feature.Vector {
	rng := rand.New(rand.NewPCG(seed, 1))
	vectors := make([]feature.Vector, n)
	for i := range vectors {
		prompt := 1 + rng.Float64()*8000
		vectors[i] = feature.Of(
			feature.Request{PromptTokens: prompt, CachedTokens: prompt * rng.Float64(), ExpectedOutputTokens: 200, MaxOutputTokens: feature.Unknown, Completions: 1},
			feature.Load{
				Scraped: feature.Scraped{Waiting: float64(rng.IntN(20)), Running: float64(rng.IntN(64)), KVUsed: rng.Float64(), Age: 0.1},
				Profile: feature.Profile{PeakPrefillThroughput: 15928, MaxBatchedTokens: 8192, MaxNumSeqs: 256, KVCapacityTokens: 500000, SpeedFactor: 1},
			},
			feature.Prior{TTFT: feature.Seconds(0.03 + 2*rng.Float64()), TPOT: feature.Seconds(0.01 + 0.05*rng.Float64())},
		)
	}
	return vectors
}

// serve runs s at addr and returns what ends it and waits for that.
func serve(t testing.TB, s *predictor.Server, addr string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, addr) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func dial(t testing.TB, addr string) *predictor.Client {
	t.Helper()
	c, err := predictor.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// dialReady is dial and waits until the server is there.
func dialReady(t testing.TB, addr string) *predictor.Client {
	t.Helper()
	c := dial(t, addr)
	ready(t, c)
	return c
}

func ready(t testing.TB, c *predictor.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
}

func socket(t testing.TB) string { return "unix://" + t.TempDir() + "/p.sock" }
