package server

import (
	"errors"
	"testing"

	"github.com/spillway-llm/spillway/internal/fleet"
)

// FuzzRequest: whatever a client sends is refused or gives the engine a
// request that it can take.
func FuzzRequest(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","prompt":"hello","max_tokens":3,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`,
		`{"prompt":[1,2,3],"min_tokens":5}`,
		`{"prompt":[[1,2]],"seed":-1,"cache_salt":"s"}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"max_completion_tokens":4,"chat_template_kwargs":{"enable_thinking":true}}`,
		`{"messages":[{"role":"","content":null}]}`,
		`{"prompt":null}`, `{"prompt":[[[]]]}`, `{"n":0}`, `[`, ``,
	} {
		f.Add([]byte(body), true)
		f.Add([]byte(body), false)
	}
	const room = 2048
	cfg := Config{MedianOutput: 50, Seed: 1}
	f.Fuzz(func(t *testing.T, body []byte, chat bool) {
		w, err := parse(body, chat)
		if err != nil {
			return
		}
		if err := w.resolve(cfg, 16, room); err != nil {
			if w.tokens > 0 && !errors.Is(err, fleet.ErrTooLong) {
				t.Fatalf("a prompt of %d tokens: %v", w.tokens, err)
			}
			return
		}
		if w.output < 1 || w.output > w.limit || w.tokens+w.limit > room || w.reasoning > w.output {
			t.Fatalf("%d prompt tokens, %d generated of %d, %d reasoning", w.tokens, w.output, w.limit, w.reasoning)
		}
		if got := len(w.prompt.Chain); got > w.tokens/16 {
			t.Fatalf("%d blocks for %d prompt tokens", got, w.tokens)
		}
		if r := w.engineRequest(1); r.MaxTokens < w.output {
			t.Fatalf("the engine may generate %d of %d tokens", r.MaxTokens, w.output)
		}
	})
}
