package fleet

import (
	"errors"
	"fmt"
	"time"
)

// ErrTooLong says that an engine can never hold a request: prompt and output
// limit together exceed the LLM's context length or the KV cache.
var ErrTooLong = errors.New("request exceeds what the engine can hold")

// Prompt is what a request asks to be read.
type Prompt struct {
	Tokens int      // at least 1
	Chain  []uint64 // hash of every full block, each over all before it; see ChainOf. May be shorter: the rest is never shared
}

// Output is what a request will turn out to generate.
type Output struct {
	Tokens int      // at least 1, at most the request's MaxTokens
	Chain  []uint64 // continues the prompt's chain into the generated tokens; may be nil
}

// Request is one generation. Its true output is unexported, so that nothing
// that decides about a request can look at it.
type Request struct {
	ID        uint64 // unique among the live requests of an engine
	Prompt    Prompt
	MaxTokens int    // most tokens to generate
	Class     string // kind of traffic; decides how well its tokens can be guessed ahead
	output    Output
	tag       int32 // comes back in events
}

// NewRequest makes a request whose true output is known to the engine alone.
func NewRequest(id uint64, prompt Prompt, maxTokens int, output Output) *Request {
	return &Request{ID: id, Prompt: prompt, MaxTokens: maxTokens, output: output}
}

func (r *Request) check(blockTokens int) error {
	switch {
	case r.Prompt.Tokens < 1:
		return fmt.Errorf("request %d has %d prompt tokens: want at least 1", r.ID, r.Prompt.Tokens)
	case r.output.Tokens < 1 || r.output.Tokens > r.MaxTokens:
		return fmt.Errorf("request %d generates %d tokens: want 1 to its limit of %d", r.ID, r.output.Tokens, r.MaxTokens)
	case len(r.Prompt.Chain) > r.Prompt.Tokens/blockTokens:
		return fmt.Errorf("request %d has %d prompt blocks for %d prompt tokens", r.ID, len(r.Prompt.Chain), r.Prompt.Tokens)
	}
	return nil
}

// sequence is a request inside an engine. What every step reads stands here
// again, in two lines of memory (128 bytes), and what most steps read in the
// first.
type sequence struct {
	*Request
	prompt, output int // tokens
	computed       int // tokens whose KV entries exist
	generated      int // output tokens so far
	chunk          int // tokens scheduled in the current step
	drafted        int // of them, guessed ahead and right
	tag            int32
	running        bool
	admitted       bool // at least once
	cancelled      bool // leaves at the end of the current step

	cached int           // prompt tokens found in the prefix cache at first admission
	accept float64       // mean tokens of a decode step
	blocks []int32       // held, in order
	sealed int           // leading blocks whose hashes were offered to the prefix index
	order  uint64        // of arrival
	enters time.Duration // when it joins the waiting line
}

// tokens is the length of the sequence now.
func (s *sequence) tokens() int { return s.prompt + s.generated }

// hash returns the hash of block i, if the request gave one.
func (s *sequence) hash(i int) (uint64, bool) {
	if i < len(s.Prompt.Chain) {
		return s.Prompt.Chain[i], true
	}
	if i -= len(s.Prompt.Chain); i < len(s.Request.output.Chain) && s.generated > 0 {
		return s.Request.output.Chain[i], true
	}
	return 0, false
}
