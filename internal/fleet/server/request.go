package server

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/spillway-llm/spillway/internal/fleet"
)

// tokenBytes is how much text the simulated tokenizer puts into a token.
const tokenBytes = 4

// defaultReasoning is the share of a chat's output that reasons when the
// request enables thinking and the endpoint was given no share.
const defaultReasoning = 0.5

// request is the part of a completion or chat completion that has an effect.
type request struct {
	Model     string        `json:"model"`
	Prompt    promptText    `json:"prompt"`
	Messages  []chatMessage `json:"messages"`
	CacheSalt string        `json:"cache_salt"`

	N                   *int  `json:"n"`
	MaxTokens           *int  `json:"max_tokens"`
	MaxCompletionTokens *int  `json:"max_completion_tokens"`
	MinTokens           int   `json:"min_tokens"`
	IgnoreEOS           bool  `json:"ignore_eos"`
	Seed                int64 `json:"seed"`

	Stream        bool `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	ChatTemplate struct {
		EnableThinking *bool `json:"enable_thinking"`
	} `json:"chat_template_kwargs"`
}

// promptText is the prompt of a completion: a string, token ids, or an array
// with one of either.
type promptText []byte

func (p *promptText) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*p = promptText(text)
		return nil
	}
	var ids []uint32
	if json.Unmarshal(data, &ids) == nil {
		*p = (*p)[:0]
		for _, id := range ids {
			*p = binary.BigEndian.AppendUint32(*p, id)
		}
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(data, &list) != nil || len(list) != 1 || len(list[0]) == 0 || list[0][0] != '"' && list[0][0] != '[' {
		return errors.New("prompt: want a string, token ids, or an array with one of either")
	}
	if list[0][0] == '[' && strings.ContainsAny(string(list[0][1:]), "[\"") {
		return errors.New("prompt: want token ids in the inner array")
	}
	return p.UnmarshalJSON(list[0])
}

type chatMessage struct {
	Role    string      `json:"role"`
	Content messageText `json:"content"`
}

// messageText is the content of a message: a string, null, or text parts.
type messageText string

func (m *messageText) UnmarshalJSON(data []byte) error {
	var text string // null leaves it empty
	if json.Unmarshal(data, &text) == nil {
		*m = messageText(text)
		return nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(data, &parts) != nil {
		return errors.New("content: want a string, null, or an array of parts")
	}
	var all strings.Builder
	for _, p := range parts {
		if p.Type != "text" {
			return fmt.Errorf("content: part of type %q: want text", p.Type)
		}
		all.WriteString(p.Text)
	}
	*m = messageText(all.String())
	return nil
}

// work is what a request asks the engine to do.
type work struct {
	request
	chat      bool
	tokens    int    // of the prompt
	limit     int    // most tokens to generate
	output    int    // tokens that will be generated
	reasoning int    // of those, the first that go to reasoning_content
	textSeed  uint64 // of the generated text
	prompt    fleet.Prompt
	generated fleet.Output
}

// capped says that the output ends by its limit.
func (w *work) capped() bool { return w.output == w.limit }

// parse reads a request body. The error is the client's mistake.
func parse(body []byte, chat bool) (*work, error) {
	w := &work{chat: chat}
	if err := json.Unmarshal(body, &w.request); err != nil {
		return nil, err
	}
	switch {
	case w.N != nil && *w.N != 1:
		return nil, fmt.Errorf("n is %d: this server generates one choice", *w.N)
	case chat && len(w.Messages) == 0:
		return nil, errors.New("messages is empty: want at least one")
	case !chat && len(w.Prompt) == 0:
		return nil, errors.New("prompt is empty: want at least one token")
	case w.MinTokens < 0:
		return nil, fmt.Errorf("min_tokens is %d: want 0 or more", w.MinTokens)
	}
	if chat && w.MaxCompletionTokens != nil {
		w.MaxTokens = w.MaxCompletionTokens
	}
	if w.MaxTokens != nil && (*w.MaxTokens < 1 || *w.MaxTokens > math.MaxInt32) {
		return nil, fmt.Errorf("max_tokens is %d: want at least 1", *w.MaxTokens)
	}
	return w, nil
}

// text is everything the engine reads, and what a template puts between it and
// the answer.
func (w *work) text() (prompt []byte, between string) {
	if !w.chat {
		return w.Prompt, ""
	}
	for _, m := range w.Messages {
		prompt = append(prompt, m.Role...)
		prompt = append(prompt, m.Content...)
	}
	return prompt, "assistant"
}

// resolve decides the output and hashes the blocks. room is the LLM's context
// length; the error says that the prompt leaves none of it.
func (w *work) resolve(cfg Config, blockTokens, room int) error {
	text, between := w.text()
	w.tokens = (len(text) + tokenBytes - 1) / tokenBytes
	if w.tokens == 0 {
		return errors.New("the prompt is empty: want at least one token")
	}
	room -= w.tokens
	if w.MaxTokens != nil && *w.MaxTokens > room {
		return fmt.Errorf("%w: the prompt has %d tokens and max_tokens is %d, the maximum context length is %d", fleet.ErrTooLong, w.tokens, *w.MaxTokens, w.tokens+room)
	}
	if room < 1 {
		return fmt.Errorf("%w: the prompt has %d tokens, the maximum context length is %d", fleet.ErrTooLong, w.tokens, w.tokens+room)
	}
	blockBytes := blockTokens * tokenBytes
	seed := fleet.ChainSeed(w.Model, w.CacheSalt)
	chain := fleet.ChainOf(nil, seed, text, blockBytes)
	blocks := len(chain)
	last, tail := seed, text[blocks*blockBytes:]
	if blocks > 0 {
		last = chain[blocks-1]
	}
	identity := fleet.ExtendChain(last, fleet.ChainSeed(string(tail)))
	w.textSeed = fleet.ExtendChain(identity, uint64(w.Seed))
	w.decide(cfg, room)

	tail = append(append([]byte(nil), tail...), between...)
	for i := range w.output {
		tail = appendToken(tail, w.textSeed, i)
	}
	chain = fleet.ChainOf(chain, last, tail, blockBytes)
	w.prompt = fleet.Prompt{Tokens: w.tokens, Chain: chain[:blocks:blocks]}
	w.generated = fleet.Output{Tokens: w.output, Chain: chain[blocks:]}
	return nil
}

// decide sets how much is generated, at most room.
func (w *work) decide(cfg Config, room int) {
	// Output lengths of public traces are near log-normal; 0.7 is a spread
	// between those of chat and of code completion.
	rng := rand.New(rand.NewPCG(cfg.Seed, w.textSeed))
	drawn := int(float64(cfg.MedianOutput) * math.Exp(0.7*rng.NormFloat64()))
	drawn = max(drawn, w.MinTokens, 1)
	if w.MaxTokens == nil {
		w.limit = room
		w.output = min(drawn, room)
	} else {
		w.limit = *w.MaxTokens
		w.output = min(drawn, w.limit)
		if w.IgnoreEOS {
			w.output = w.limit
		}
	}
	if !w.chat {
		return
	}
	share := cfg.ReasoningShare
	if think := w.ChatTemplate.EnableThinking; think != nil {
		if *think {
			share = max(share, defaultReasoning)
		} else {
			share = 0
		}
	}
	w.reasoning = int(share * float64(w.output))
}

// engineRequest is the request as the engine sees it. Without a max_tokens the
// engine is told the true length, as no real limit is known.
func (w *work) engineRequest(id uint64) *fleet.Request {
	limit := w.limit
	if w.MaxTokens == nil {
		limit = w.output
	}
	return fleet.NewRequest(id, w.prompt, limit, w.generated)
}

// appendToken appends token i of the text with the given seed.
func appendToken(dst []byte, seed uint64, i int) []byte {
	h := fleet.ExtendChain(seed, uint64(i))
	return append(dst, ' ', 'a'+byte(h%26), 'a'+byte(h>>16%26), 'a'+byte(h>>32%26))
}
