package lightgbm_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/bundle"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/trainer/gbdt"
	"github.com/spillway-llm/spillway/trainer/learn"
)

// TestARefitIsTheSameThroughFiles: what goes to the command and comes back loses
// nothing of a refit's rows, labels and weights.
func TestARefitIsTheSameThroughFiles(t *testing.T) {
	c := installed(t, "grows")
	profile, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 1))
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var samples []learn.Sample
	for range 250 {
		r := feature.Request{PromptTokens: math.Floor(math.Exp2(6 + 7*rng.Float64())), ExpectedOutputTokens: 300 * rng.Float64(), MaxOutputTokens: feature.Unknown, Completions: 1}
		waiting, decoding := math.Floor(10*rng.Float64()), math.Floor(50*rng.Float64())
		l := feature.Load{
			Scraped: feature.Scraped{Waiting: waiting, Running: decoding, KVUsed: decoding / 60, Age: feature.Seconds(rng.Float64())},
			Ledger:  feature.Ledger{Requests: decoding + waiting, Decoding: decoding, ContextTokens: 1200 * decoding, PrefillTokens: 3000 * waiting},
			Profile: feature.Profile{PeakPrefillThroughput: 15928, MaxBatchedTokens: 8192, MaxNumSeqs: 256, KVCapacityTokens: 262144, SpeedFactor: 1},
		}
		at = at.Add(time.Second)
		samples = append(samples, learn.Sample{
			Decided: at, Finished: at, Class: "h100", Vector: feature.Of(r, l, physics.Estimate(profile.Coefficients, r, l)),
			TTFT: 0.4*math.Tanh(waiting/6) + 0.06*rng.NormFloat64(), TPOT: 0.3*l.Scraped.KVUsed + 0.06*rng.NormFloat64(),
		})
	}
	made := func(engine learn.Engine) []byte {
		s := learn.Defaults()
		s.Forest.Trees, s.Forest.LearningRate, s.Engine = 10, 0.3, engine
		b, err := learn.Fit(t.Context(), learn.Task{LLM: "qwen", At: at, Samples: samples, Learned: [bundle.Targets]bool{true, true, true, true}}, s)
		if err != nil {
			t.Fatal(err)
		}
		written, err := bundle.Encode(b)
		if err != nil {
			t.Fatal(err)
		}
		return written
	}
	if !bytes.Equal(made(c.Train), made(gbdt.Train)) {
		t.Error("another bundle comes of the same rows through files")
	}
}
