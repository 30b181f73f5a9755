package loadgen

import (
	"encoding/binary"
	"strconv"

	"github.com/spillway-llm/spillway/internal/openai"
	"github.com/spillway-llm/spillway/internal/splitmix"
)

// BytesPerToken is the length of a token in the prompts made here, the same as
// the simulated engines' tokeniser counts.
const BytesPerToken = 4

// letters are the bytes of a prompt: lower case, and one space in about five.
const letters = "abcdefghijklmnopqrstuvwxyz      "

// body writes the request of a job. It is written by hand because it is mostly
// prompt, which needs no escaping.
func (r *run) body(j job) []byte {
	b := make([]byte, 0, j.item.PromptTokens*BytesPerToken+256+len(r.model))
	b = append(b, `{"model":`...)
	b = append(b, r.model...)
	if r.API == openai.Completions {
		b = append(b, `,"prompt":"`...)
		b = r.prompt(b, j)
		b = append(b, '"')
	} else {
		b = append(b, `,"messages":[{"role":"user","content":"`...)
		b = r.prompt(b, j)
		b = append(b, `"}]`...)
	}
	b = append(b, `,"max_tokens":`...)
	b = strconv.AppendInt(b, int64(max(j.item.OutputTokens, 1)), 10)
	return append(b, `,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`...)
}

// prompt appends the prompt's text: for each block the text that its id makes,
// and behind the blocks text that is this request's own.
func (r *run) prompt(b []byte, j job) []byte {
	left := j.item.PromptTokens * BytesPerToken
	if block := j.item.BlockTokens * BytesPerToken; block > 0 {
		for _, id := range j.item.Blocks {
			n := min(block, left)
			b = text(b, splitmix.Mix(r.Seed, 'b', id), n)
			left -= n
		}
	}
	return text(b, splitmix.Mix(r.Seed, 'r', uint64(j.index)), left)
}

// text appends n bytes that depend on the state alone.
func text(b []byte, state uint64, n int) []byte {
	var word [8]byte
	for n > 0 {
		binary.LittleEndian.PutUint64(word[:], splitmix.Next(&state))
		for i := range word {
			word[i] = letters[word[i]%32]
		}
		k := min(n, len(word))
		b = append(b, word[:k]...)
		n -= k
	}
	return b
}
