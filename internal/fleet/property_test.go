package fleet_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
)

func drawProfile(t *rapid.T) physics.Profile {
	p := small()
	p.MaxBatchedTokens = rapid.IntRange(1, 200).Draw(t, "budget")
	p.MaxNumSeqs = rapid.IntRange(1, 6).Draw(t, "sequences")
	p.BlockTokens = rapid.SampledFrom([]int{1, 4, 16}).Draw(t, "block")
	p.KVCapacityTokens = p.BlockTokens * rapid.IntRange(4, 30).Draw(t, "blocks")
	return p
}

func drawOptions(t *rapid.T, p physics.Profile) fleet.Options {
	return fleet.Options{
		AsyncScheduling:   rapid.Bool().Draw(t, "async"),
		Acceptance:        map[string]float64{"": float64(rapid.IntRange(1, 4).Draw(t, "acceptance"))},
		LongPrefillTokens: rapid.SampledFrom([]int{0, 0, 10, 50}).Draw(t, "long prefill"),
		OffloadTokens:     p.BlockTokens * rapid.SampledFrom([]int{0, 0, 3, 20}).Draw(t, "offload"),
		OffloadSeconds:    1e-4,
		SeparateReads:     rapid.Bool().Draw(t, "separate reads"),
	}
}

// drawChain makes a chain that shares a beginning with others of its topic.
func drawChain(t *rapid.T, id uint64, blocks int) []uint64 {
	topic := rapid.Uint64Range(0, 2).Draw(t, "topic")
	shared := rapid.IntRange(0, blocks).Draw(t, "shared blocks")
	chain := make([]uint64, blocks)
	h := topic
	for i := range chain {
		content := uint64(i)
		if i >= shared {
			content += 1000 * (id + 1)
		}
		h = fleet.ExtendChain(h, content)
		chain[i] = h
	}
	return chain
}

func drawScript(t *rapid.T, p physics.Profile) (script []*twinSeq) {
	var at time.Duration
	capacity := p.KVCapacityTokens
	for id := range rapid.Uint64Range(1, 25).Draw(t, "requests") {
		at += time.Duration(rapid.IntRange(0, 120).Draw(t, "gap ms")) * time.Millisecond
		prompt := rapid.IntRange(1, capacity-1).Draw(t, "prompt")
		output := rapid.IntRange(1, min(40, capacity-prompt)).Draw(t, "output")
		chain := drawChain(t, id, (prompt+output)/p.BlockTokens)
		script = append(script, &twinSeq{id: id, prompt: prompt, output: output, chain: chain, arrived: at})
	}
	return script
}

func (s *twinSeq) request(p physics.Profile) *fleet.Request {
	n := s.prompt / p.BlockTokens
	return fleet.NewRequest(s.id, fleet.Prompt{Tokens: s.prompt, Chain: s.chain[:n]}, s.output, fleet.Output{Tokens: s.output, Chain: s.chain[n:]})
}

func TestEngineEqualsTwin(t *testing.T) {
	preemptions, hits := int64(0), int64(0)
	rapid.Check(t, func(rt *rapid.T) {
		p := drawProfile(rt)
		o := drawOptions(rt, p)
		script := drawScript(rt, p)
		e := newEngine(t, fleet.Config{Profile: p, Options: o})
		var got []happened
		for _, s := range script {
			if err := e.Submit(s.arrived, s.request(p)); err != nil {
				rt.Fatal(err)
			}
		}
		for at, ok := e.NextEvent(); ok; at, ok = e.NextEvent() {
			for _, ev := range e.Advance(at) {
				got = append(got, happened{ev.Request.ID, ev.Kind, ev.At, ev.Generated, ev.Cached})
			}
			if err := e.Check(); err != nil {
				rt.Fatalf("at %v: %v", at, err)
			}
		}
		if diff := cmp.Diff(newTwin(p, o).run(script), got, nearly); diff != "" {
			rt.Fatalf("twin and engine differ: %s", diff)
		}
		preemptions += e.Metrics().Preemptions
		hits += e.Metrics().PrefixHitTokens
	})
	if preemptions == 0 || hits == 0 {
		t.Errorf("the scripts caused %d preemptions and %d hits: want both", preemptions, hits)
	}
}

// TestInvariantsUnderCancellation plays arbitrary submissions, cancellations
// and advances in arbitrary strides.
func TestInvariantsUnderCancellation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawProfile(rt)
		p.NoiseStdDev = 0.3
		e := newEngine(t, fleet.Config{
			Profile:  p,
			Overhead: time.Duration(rapid.IntRange(0, 50).Draw(rt, "overhead ms")) * time.Millisecond,
			Noise:    rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0)),
			Options:  drawOptions(rt, p),
		})
		var now, latest time.Duration
		tokens := map[uint64]int{}
		var live []uint64
		observe := func(evs []fleet.Event) {
			for _, ev := range evs {
				id := ev.Request.ID
				if ev.At < latest || ev.At > now {
					rt.Fatalf("event at %v after one at %v, advanced to %v", ev.At, latest, now)
				}
				latest = ev.At
				if !slices.Contains(live, id) {
					rt.Fatalf("event for request %d, which is not live", id)
				}
				if ev.Kind == fleet.Finished {
					live = slices.DeleteFunc(live, func(x uint64) bool { return x == id })
					continue
				}
				if n := ev.Generated - tokens[id]; n < 1 || n > 4 {
					rt.Fatalf("request %d: token %d came after number %d", id, ev.Generated, tokens[id])
				}
				tokens[id] = ev.Generated
			}
		}
		next := uint64(0)
		rt.Repeat(map[string]func(*rapid.T){
			"submit": func(rt *rapid.T) {
				prompt := rapid.IntRange(1, p.KVCapacityTokens-1).Draw(rt, "prompt")
				output := rapid.IntRange(1, min(40, p.KVCapacityTokens-prompt)).Draw(rt, "output")
				s := &twinSeq{id: next, prompt: prompt, output: output, chain: drawChain(rt, next, (prompt+output)/p.BlockTokens)}
				if err := e.Submit(now, s.request(p)); err != nil {
					rt.Fatal(err)
				}
				live = append(live, next)
				next++
			},
			"cancel": func(rt *rapid.T) {
				if len(live) == 0 {
					rt.Skip("nothing to cancel")
				}
				id := rapid.SampledFrom(live).Draw(rt, "id")
				if !e.Cancel(id) {
					rt.Fatalf("request %d was not live", id)
				}
				live = slices.DeleteFunc(live, func(x uint64) bool { return x == id })
			},
			"advance": func(rt *rapid.T) {
				now += time.Duration(rapid.IntRange(0, 300).Draw(rt, "ms")) * time.Millisecond
				observe(e.Advance(now))
			},
			"": func(rt *rapid.T) {
				if err := e.Check(); err != nil {
					rt.Fatal(err)
				}
			},
		})
		for at, ok := e.NextEvent(); ok; at, ok = e.NextEvent() {
			now = at
			observe(e.Advance(at))
		}
		if len(live) > 0 || e.Metrics().KVUsed != 0 {
			rt.Fatalf("drained with %v live and %v of the cache held", live, e.Metrics().KVUsed)
		}
	})
}

func FuzzChain(f *testing.F) {
	f.Add([]byte("a prompt of some length that has more than one block in it, surely"), uint8(16), uint8(5))
	f.Fuzz(func(t *testing.T, text []byte, size, flip uint8) {
		n := int(size%64) + 1
		chain := fleet.ChainOf(nil, 1, text, n)
		if len(chain) != len(text)/n {
			t.Fatalf("%d blocks for %d bytes in blocks of %d", len(chain), len(text), n)
		}
		if len(chain) == 0 {
			return
		}
		at := int(flip) % (len(chain) * n)
		other := slices.Clone(text)
		other[at] ^= 1
		for i, h := range fleet.ChainOf(nil, 1, other, n) {
			if same := h == chain[i]; same != (i < at/n) {
				t.Fatalf("byte %d changed, block %d same is %t", at, i, same)
			}
		}
	})
}
