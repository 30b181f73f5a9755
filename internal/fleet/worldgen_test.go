package fleet_test

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/workload"
)

// drawSessions makes small conversations that share beginnings.
func drawSessions(t *rapid.T, open bool) (all []workload.Session) {
	at := time.Duration(0)
	for i := range rapid.IntRange(1, 12).Draw(t, "sessions") {
		if open {
			at += time.Duration(rapid.IntRange(0, 400).Draw(t, "gap ms")) * time.Millisecond
		}
		s := workload.Session{Index: i, At: at, Class: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "class")}
		var ids []uint64
		size := rapid.SampledFrom([]int{16, 16, 48}).Draw(t, "block")
		topic := rapid.Uint64Range(1, 3).Draw(t, "topic")
		prompt := 0
		for turn := range rapid.IntRange(1, 3).Draw(t, "turns") {
			prompt += rapid.IntRange(1, 60).Draw(t, "input")
			output := rapid.IntRange(1, 25).Draw(t, "output")
			shared := rapid.IntRange(0, 6).Draw(t, "shared")
			w := workload.Turn{PromptTokens: prompt, OutputTokens: output}
			if turn > 0 {
				w.After = time.Duration(rapid.SampledFrom([]int{0, 0, 300}).Draw(t, "think ms")) * time.Millisecond
			}
			if size > 0 {
				w.BlockTokens = size
				for n := (prompt + output + size - 1) / size; len(ids) < n; {
					id := topic
					if len(ids) >= shared {
						id = 100 * uint64(i+1)
					}
					ids = append(ids, 1000*uint64(len(ids))+id)
				}
				n := (prompt + size - 1) / size
				w.Blocks, w.Answered = slices.Clone(ids[:n]), slices.Clone(ids)
			}
			s.Turns = append(s.Turns, w)
			prompt += output
		}
		all = append(all, s)
	}
	return all
}

func drawWorld(t *rapid.T, policies []string) fleet.WorldConfig {
	open := rapid.Bool().Draw(t, "open")
	sessions := drawSessions(t, open)
	c := fleet.WorldConfig{
		Seed:        rapid.Uint64().Draw(t, "seed"),
		BlockTokens: 16,
		Router: fleet.RouterConfig{
			Policy:         rapid.SampledFrom(policies).Draw(t, "policy"),
			ScrapeInterval: time.Duration(rapid.SampledFrom([]int{100, 1000}).Draw(t, "scrape ms")) * time.Millisecond,
			ScrapeDelay:    time.Duration(rapid.SampledFrom([]int{0, 20, 150}).Draw(t, "scrape delay ms")) * time.Millisecond,
			Connections:    rapid.SampledFrom([]fleet.Connections{fleet.PerRequest, fleet.PerRequest, fleet.PerSession, fleet.PerClient}).Draw(t, "connections"),
		},
		Plan: workload.Plan{
			Sessions: slices.Values(sessions),
			Timeout:  time.Duration(rapid.SampledFrom([]int{0, 60, 200, 2000}).Draw(t, "timeout ms")) * time.Millisecond,
			Limit:    rapid.SampledFrom([]int{0, 0, 5}).Draw(t, "limit"),
		},
	}
	if rapid.Bool().Draw(t, "objectives") {
		c.Router.Objectives = map[string]fleet.Objective{"a": {
			SLO: fleet.SLO{
				TTFT: time.Duration(rapid.SampledFrom([]int{0, 1, 30}).Draw(t, "ttft ms")) * time.Millisecond,
				TPOT: time.Duration(rapid.SampledFrom([]int{0, 1, 20}).Draw(t, "tpot ms")) * time.Millisecond,
			},
			Priority: rapid.IntRange(-1, 1).Draw(t, "priority"),
		}}
		c.Router.Canary = rapid.SampledFrom([]float64{0, 0.5}).Draw(t, "canary")
	}
	if !open {
		c.Plan.Concurrency = rapid.IntRange(1, 4).Draw(t, "clients")
		c.Plan.Ramp = time.Duration(rapid.SampledFrom([]int{0, 500}).Draw(t, "ramp ms")) * time.Millisecond
	}
	for range rapid.IntRange(1, 4).Draw(t, "engines") {
		p := small()
		p.KVCapacityTokens = 16 * rapid.SampledFrom([]int{20, 25, 60}).Draw(t, "cache blocks")
		p.MaxBatchedTokens = rapid.SampledFrom([]int{16, 64, 200}).Draw(t, "budget")
		c.Engines = append(c.Engines, fleet.EngineSpec{
			Profile:  p,
			Overhead: time.Duration(rapid.SampledFrom([]int{0, 7}).Draw(t, "overhead ms")) * time.Millisecond,
			Options:  drawOptions(t, p),
		})
	}
	return c
}
