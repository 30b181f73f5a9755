package server

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
)

// TestLoopKeepsTheEnginesTime runs an engine of one second a step: tokens come
// when the engine says, and a hang moves everything behind it by its length.
func TestLoopKeepsTheEnginesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := physics.Profile{
			Name: "second", Coefficients: physics.Coefficients{A: 1}, MaxBatchedTokens: 64, MaxNumSeqs: 4,
			KVCapacityTokens: 1024, BlockTokens: 16, PeakPrefillThroughput: 64,
		}
		engine, err := fleet.New(fleet.Config{Profile: p})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		l := newLoop(engine, newMeters("m", p, engine.Blocks(), start), start)
		ctx, cancel := context.WithCancel(t.Context())
		var ran sync.WaitGroup
		ran.Go(func() { l.run(ctx) })
		defer ran.Wait()
		defer cancel()

		time.Sleep(10 * time.Second) // of the bubble; an idle engine does not mind
		s, err := l.submit(true, func(id uint64) *fleet.Request {
			return fleet.NewRequest(id, fleet.Prompt{Tokens: 10}, 4, fleet.Output{Tokens: 4})
		})
		if err != nil {
			t.Fatal(err)
		}
		expect := func(after time.Duration, tokens int64) {
			t.Helper()
			<-s.ready
			if got := time.Since(start); got != after || s.tokens.Load() != tokens {
				t.Errorf("%d tokens after %v, want %d after %v", s.tokens.Load(), got, tokens, after)
			}
		}
		expect(11*time.Second, 1)
		time.Sleep(500 * time.Millisecond)
		l.do(func() { l.apply(Fault{Kind: Hang}) })
		expect(11500*time.Millisecond, 1) // woken to look at the fault
		time.Sleep(time.Minute)
		l.do(func() { l.apply(Fault{Kind: Slow, Factor: 3}) })
		expect(71500*time.Millisecond, 1)
		expect(72*time.Second, 2) // the step that hung
		expect(75*time.Second, 3) // a slow one
		l.do(func() { l.apply(Fault{Kind: None}) })
		<-s.ready
		expect(78*time.Second, 4) // it had begun as a slow one
		if !s.finished.Load() {
			t.Error("four tokens and not finished")
		}
	})
}

func TestStreamedTokenDoesNotAllocate(t *testing.T) {
	w, err := parse([]byte(`{"prompt":"hello","max_tokens":100,"ignore_eos":true}`), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.resolve(Config{MedianOutput: 1}, 16, 1000); err != nil {
		t.Fatal(err)
	}
	c := newReply(w, 1, time.Now()).chunks()
	buf := make([]byte, 0, 4096)
	if got := testing.AllocsPerRun(100, func() { buf = c.token(buf[:0], 7) }); got > 0 {
		t.Errorf("%v allocations per token, want 0", got)
	}
}
