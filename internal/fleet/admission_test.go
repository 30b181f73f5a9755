package fleet_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/ledger"
)

// The prior knows how long requests wait for room at an engine that is sent
// more than it can hold, however long its queue has become.
func TestThePriorKnowsTheWaitForRoom(t *testing.T) {
	const prompt, mean, requests = 4000, 400, 400
	for _, c := range []struct {
		name  string
		limit func(*physics.Profile)
		every time.Duration
	}{
		{"sequences", func(p *physics.Profile) { p.MaxNumSeqs = 12 }, 500 * time.Millisecond},
		{"cache", func(p *physics.Profile) { p.KVCapacityTokens = 64_000 }, 450 * time.Millisecond},
	} {
		p, err := physics.Named("qwen3-32b-h100-tp2-routing")
		if err != nil {
			t.Fatal(err)
		}
		p.NoiseStdDev, p.BlockTokens = 0, 64
		c.limit(&p)
		e, err := fleet.New(fleet.Config{Profile: p})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1001, 0))
		books, start := ledger.New(), time.Unix(0, 0)
		handles := map[uint64]ledger.Handle{}
		said, came := map[uint64]float64{}, map[uint64]float64{}
		sent := map[uint64]time.Duration{}
		queued := 0
		take := func(until time.Duration) {
			for _, ev := range e.Advance(until) {
				id, at := ev.Request.ID, start.Add(ev.At)
				switch {
				case ev.Kind == fleet.Finished:
					books.Settle(handles[id])
				case ev.Generated == 1:
					came[id] = (ev.At - sent[id]).Seconds()
					books.FirstToken(handles[id], at)
				default:
					books.Tokens(handles[id], 1, at)
				}
			}
		}
		for id := uint64(1); id <= requests; id++ {
			now := time.Duration(id) * c.every
			take(now)
			load := feature.Load{
				Scraped: feature.Scraped{Waiting: feature.Unknown, Running: feature.Unknown, KVUsed: feature.Unknown, Age: feature.Seconds(feature.Unknown)},
				Ledger:  books.State("a", 1, start.Add(now), start.Add(now)),
				Profile: feature.Profile{
					MaxBatchedTokens: float64(p.MaxBatchedTokens), MaxNumSeqs: float64(p.MaxNumSeqs), KVCapacityTokens: float64(p.KVCapacityTokens),
				},
			}
			prior := physics.Estimate(p.Coefficients, feature.Request{PromptTokens: prompt, ExpectedOutputTokens: mean, Completions: 1}, load)
			if prior.Admission > 0 {
				said[id] = float64(prior.TTFT)
			}
			queued = max(queued, e.Metrics().Waiting)
			output := max(1, int(rng.ExpFloat64()*mean))
			handles[id] = books.Charge("a", 1, ledger.Entry{PromptTokens: prompt, UncachedTokens: prompt, ExpectedOutput: mean}, start.Add(now))
			sent[id] = now
			if err := e.Submit(now, fleet.NewRequest(id, fleet.Prompt{Tokens: prompt}, output, fleet.Output{Tokens: output})); err != nil {
				t.Fatal(err)
			}
		}
		take(time.Hour)
		if e.Metrics().Waiting > 0 || queued < 100 || len(said) < 350 {
			t.Fatalf("%s: at most %d waited, %d were said to: the test proves nothing", c.name, queued, len(said))
		}
		var sums [4][2]float64 // by order of arrival
		for id, s := range said {
			quarter := &sums[4*(id-1)/requests]
			quarter[0] += s
			quarter[1] += came[id]
		}
		for i, s := range sums {
			if ratio := s[0] / s[1]; ratio < 0.85 || ratio > 1.15 {
				t.Errorf("%s, quarter %d: waits of %.0f s in all were said to be %.0f s", c.name, i+1, s[1], s[0])
			}
		}
	}
}
