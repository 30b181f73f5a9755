package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
)

const (
	llm     = "bench"
	profile = "qwen3-32b-h100-tp2-routing"
)

// world makes rows whose distance from the prior is known: a bias, and what
// load adds to it, plus noise that neighbours share.
type world struct {
	rng     *rand.Rand
	profile physics.Profile

	bias, slope [2]float64 // of ln(actual/prior) of TTFT and of TPOT; the slope is what full load adds
	spread      float64    // standard deviation of the noise
	correlation float64    // of the noise from one row to the next
	noise       [2]float64
	idle, heavy bool    // the regime, where it is only one
	alike       *regime // one request and one load for all rows
}

type regime struct {
	request feature.Request
	load    feature.Load
}

// clean is a world in which there is something to learn.
func clean(seed uint64) *world {
	w := null(seed)
	w.spread, w.correlation = 0.04+0.1*w.rng.Float64(), 0.5*w.rng.Float64()
	for k := range w.bias {
		w.bias[k] = 0.1 + 0.25*w.rng.Float64()
		w.slope[k] = 0.2 + 0.3*w.rng.Float64()
	}
	return w
}

// null is a world whose prior is right but for noise: nothing can be learned.
func null(seed uint64) *world {
	p, err := physics.Named(profile)
	if err != nil {
		panic(err) // it is built in
	}
	w := &world{rng: rand.New(rand.NewPCG(seed, 11)), profile: p}
	w.spread = 0.05 + 0.25*w.rng.Float64()
	w.correlation = []float64{0, 0.5, 0.8, 0.9, 0.95}[w.rng.IntN(5)]
	return w
}

// rows makes n of them, the last one long enough before now to have ended.
func (w *world) rows(n int, now time.Time) []feature.Row {
	for k := range w.noise {
		w.noise[k] = w.spread * w.rng.NormFloat64()
	}
	out := make([]feature.Row, n)
	for i := range out {
		out[i] = w.row(now.Add(-time.Hour - time.Duration(n-i)*time.Second))
	}
	return out
}

func (w *world) between(low, high int) float64 { return float64(low + w.rng.IntN(high-low)) }

func (w *world) regime() regime {
	if w.alike != nil {
		return *w.alike
	}
	decoding, waiting, prefill := w.between(0, 60), w.between(0, 20), w.between(0, 8000)
	switch {
	case w.idle:
		decoding, waiting, prefill = w.between(0, 3), 0, 0
	case w.heavy:
		decoding, waiting, prefill = w.between(40, 60), w.between(10, 20), w.between(4000, 8000)
	}
	r := feature.Request{PromptTokens: w.between(200, 6000), ExpectedOutputTokens: w.between(10, 400), MaxOutputTokens: 1024, Completions: 1}
	r.CachedTokens = math.Floor(r.PromptTokens * w.rng.Float64())
	p := w.profile
	return regime{r, feature.Load{
		Scraped: feature.Scraped{Waiting: waiting, Running: decoding, KVUsed: w.rng.Float64(), Age: feature.Seconds(w.rng.Float64())},
		Ledger: feature.Ledger{Requests: decoding + w.between(0, 4), PrefillTokens: prefill, Decoding: decoding,
			ContextTokens: decoding * 2000, SinceScrape: w.between(0, 3), SinceScrapeTok: w.between(0, 3000)},
		Profile: feature.Profile{PeakPrefillThroughput: p.PeakPrefillThroughput, MaxBatchedTokens: float64(p.MaxBatchedTokens),
			MaxNumSeqs: float64(p.MaxNumSeqs), KVCapacityTokens: float64(p.KVCapacityTokens), SpeedFactor: 1},
	}}
}

func (w *world) row(at time.Time) feature.Row {
	at = time.UnixMicro(at.UnixMicro()).UTC()
	r := w.regime()
	prior := physics.Estimate(w.profile.Coefficients, r.request, r.load)
	full := math.Tanh(r.load.Scraped.Waiting/8 + r.load.Scraped.Running/60)
	actual := [2]feature.Seconds{prior.TTFT, prior.TPOT}
	for k := range actual {
		w.noise[k] = w.correlation*w.noise[k] + math.Sqrt(1-w.correlation*w.correlation)*w.spread*w.rng.NormFloat64()
		actual[k] *= feature.Seconds(math.Exp(w.bias[k] + w.slope[k]*full + w.noise[k]))
	}
	output := r.request.ExpectedOutputTokens
	e2e := actual[0] + actual[1]*feature.Seconds(output-1)
	endpoint := fmt.Sprintf("http://10.0.0.%d:8000", w.rng.IntN(6))
	id := w.id(at)
	return feature.Row{
		Decision: id, DecidedAt: at, LLM: llm, Endpoint: endpoint, Class: "bench", Schema: feature.Schema,
		Vector: feature.Of(r.request, r.load, prior), Forecast: feature.NoForecast, Corrected: feature.NoForecast,
		Outcome: feature.Outcome{
			Decision: id, DecidedAt: at, Attempt: 1, Status: feature.OK, HTTPStatus: 200, TTFT: actual[0], TPOT: actual[1], E2E: e2e,
			OutputTokens: output, CachedTokens: feature.Unknown, Endpoint: endpoint, CensoredAt: feature.Seconds(feature.Unknown),
			FinishedAt: at.Add(e2e.Duration()),
		},
	}
}

// id is a UUIDv7 of its time (RFC 9562, section 5.7).
func (w *world) id(at time.Time) feature.ID {
	var id feature.ID
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16|0x7000|w.rng.Uint64N(1<<12))
	binary.BigEndian.PutUint64(id[8:], 1<<63|w.rng.Uint64N(1<<62))
	return id
}
