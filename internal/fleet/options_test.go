package fleet_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-llm/spillway/internal/fleet"
)

// with is an engine of the small profile, with a larger cache, that has o.
func with(t testing.TB, o fleet.Options) *fleet.Engine {
	p := small()
	p.KVCapacityTokens = 640 // 40 blocks
	return newEngine(t, fleet.Config{Profile: p, Options: o, Noise: rand.New(rand.NewPCG(1, 1))})
}

// when maps a request to the times of its events.
func when(all []happened) map[uint64][]time.Duration {
	times := map[uint64][]time.Duration{}
	for _, h := range all {
		if h.Kind == fleet.Token {
			times[h.ID] = append(times[h.ID], h.At)
		}
	}
	return times
}

func TestAsyncScheduling(t *testing.T) {
	run := func(async bool) map[uint64][]time.Duration {
		e := with(t, fleet.Options{AsyncScheduling: async})
		submit(t, e, 0, request(1, "a", 16, 3))
		submit(t, e, ms(5), request(2, "b", 16, 1)) // during the first step
		return when(drain(t, e))
	}
	sync, async := run(false), run(true)
	prefill := 10 + 16 + 0.001*16*8
	decode := 10 + 2 + 0.01*17
	if want := ms(prefill + decode + 16 + 0.001*16*8); !cmp.Equal(sync[2][0], want, nearly) {
		t.Errorf("in step: first token at %v, want %v", sync[2][0], want)
	}
	// It joins one step later; by then the first has made two tokens.
	if want := sync[1][0] + ms(decode) + ms(decode+0.01+16+0.001*16*8); !cmp.Equal(async[2][0], want, nearly) {
		t.Errorf("asynchronous: first token at %v, want %v", async[2][0], want)
	}

	cost := func(async bool) time.Duration { // of the step after a request ended
		e := with(t, fleet.Options{AsyncScheduling: async})
		submit(t, e, 0, request(1, "a", 16, 2))
		submit(t, e, 0, request(2, "b", 16, 4))
		times := when(drain(t, e))[2]
		return times[2] - times[1]
	}
	if got, want := cost(true)-cost(false), ms(2+0.01*18); !cmp.Equal(got, want, nearly) {
		t.Errorf("a request that ended costs %v in the step after, want %v", got, want)
	}
}

func TestAcceptance(t *testing.T) {
	e := with(t, fleet.Options{Acceptance: map[string]float64{"code": 2.5}})
	fast := request(1, "a", 16, 200)
	fast.Class = "code"
	submit(t, e, 0, fast)
	submit(t, e, 0, request(2, "b", 16, 100))
	last, events := map[uint64]int{}, map[uint64]int{}
	for _, h := range drain(t, e) {
		if h.Kind == fleet.Finished {
			continue
		}
		if n := h.Generated - last[h.ID]; n < 1 || n > 3 || n > 1 && (h.ID == 2 || h.Generated <= 3 && last[h.ID] == 0) {
			t.Errorf("request %d: %d tokens after %d", h.ID, n, last[h.ID])
		}
		last[h.ID] = h.Generated
		events[h.ID]++
	}
	if last[1] != 200 || last[2] != 100 || events[2] != 100 {
		t.Errorf("generated %v in %v events", last, events)
	}
	if events[1] < 70 || events[1] > 92 { // 199 tokens after the first, 2.5 a step
		t.Errorf("200 tokens came in %d events, want about 81", events[1])
	}
	if m := e.Metrics(); m.GeneratedTokens != 300 {
		t.Errorf("counted %d tokens", m.GeneratedTokens)
	}
}

func TestLongPrefillThreshold(t *testing.T) {
	e := with(t, fleet.Options{LongPrefillTokens: 20})
	submit(t, e, 0, request(1, "a", 60, 1)) // three steps of 20
	submit(t, e, 0, request(2, "b", 16, 1)) // beside the first of them
	times := when(drain(t, e))
	if times[2][0] >= times[1][0] {
		t.Errorf("the short prompt came at %v, behind the long one at %v", times[2][0], times[1][0])
	}
	want := ms(3*10 + 60 + 0.001*60*30 + 16 + 0.001*16*8)
	if !cmp.Equal(times[1][0], want, nearly) {
		t.Errorf("the long prompt took %v, want %v", times[1][0], want)
	}
}

func TestOffloadBringsBlocksBack(t *testing.T) {
	const load = 1e-4
	for _, c := range []struct {
		tokens, cached int
	}{{0, 0}, {16 * 3, 16 * 3}, {1000, 16 * 9}} {
		e := with(t, fleet.Options{OffloadTokens: c.tokens, OffloadSeconds: load})
		submit(t, e, 0, request(1, "a", 160, 1))
		drain(t, e)
		submit(t, e, time.Minute, request(2, "b", 639, 1)) // takes the whole cache
		drain(t, e)
		at := 2 * time.Minute
		submit(t, e, at, request(3, "a", 160, 1))
		first := drain(t, e)[0]
		// Blocks of "a" were evicted tail first, so a small tier has kept the head.
		if first.Cached != c.cached {
			t.Errorf("offload of %d tokens: found %d, want %d", c.tokens, first.Cached, c.cached)
		}
		left := float64(160 - c.cached)
		steps := float64((160 - c.cached + 63) / 64)
		want := at + ms(steps*10+left+0.001*left*(float64(c.cached)+left/2)+1000*load*float64(c.cached))
		if !cmp.Equal(first.At, want, nearly) {
			t.Errorf("offload of %d tokens: first token at %v, want %v", c.tokens, first.At, want)
		}
	}
}

func TestSharedReads(t *testing.T) {
	step := func(separate bool) time.Duration {
		e := with(t, fleet.Options{SeparateReads: separate})
		submit(t, e, 0, request(1, "a", 160, 2))
		for range 3 { // its prefill, in chunks of the budget
			at, _ := e.NextEvent()
			advance(t, e, at)
		}
		at, _ := e.NextEvent()
		submit(t, e, at, request(2, "a", 160, 20))
		submit(t, e, at, request(3, "a", 160, 20))
		times := when(drain(t, e))[3]
		return times[len(times)-1] - times[len(times)-2]
	}
	separate, shared := step(true), step(false)
	if want := ms(10 + 2*2 + 0.01*2*179); !cmp.Equal(separate, want, nearly) {
		t.Errorf("separately: %v a step, want %v", separate, want)
	}
	// The chains of a topic are equal to the end: of 24 references nearly all
	// are to the same 9 to 12 blocks.
	if saved := separate - shared; saved < ms(0.8) || saved > ms(1.79) {
		t.Errorf("shared: %v a step, separately %v", shared, separate)
	}
}

func TestLiveMetrics(t *testing.T) {
	e := with(t, fleet.Options{LiveMetrics: true})
	submit(t, e, 0, request(1, "a", 64, 2))
	advance(t, e, ms(1))
	if m := e.Metrics(); m.Running != 1 || m.KVUsed != 4.0/40 {
		t.Errorf("inside the first step: %+v", m)
	}
}
