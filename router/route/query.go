package route

import (
	"iter"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Query is a request as a front door understood it.
type Query struct {
	LLM string // empty: any endpoint may serve it (a path that names no LLM)

	// Prompt yields the prompt in template order, in pieces of the body as
	// they stand there. Nil or empty: there is no prefix to go by.
	Prompt       iter.Seq[Piece]
	PromptBytes  int    // of its text, which is converted to tokens
	PromptTokens int    // of what is no text: token ids, media
	Salt         string // cache salt, LoRA adapter: part of the prefix

	// Within, when not nil, lists the addresses of the endpoints that may
	// serve, as Address writes them, sorted. An empty list leaves none.
	Within []string

	MaxOutputTokens int // the request's own limit; negative when it gives none
	Completions     int // the field n; 0 means 1
	Streaming       bool
	SLOTTFT         feature.Seconds // NaN when unset; 0 is not unset
	SLOTPOT         feature.Seconds
	Priority        int
}

// Piece is a part of a prompt.
type Piece struct {
	Bytes []byte
	// Tokens is what the piece counts for where that does not follow from its
	// length: 1 for a token id, an estimate for an image. 0: it is text.
	Tokens int
}

// End is how a request ended, as the front door saw it.
type End struct {
	Status     feature.Status
	HTTPStatus int // of the answer the client saw

	// ErrorInside says that the answer came to its end and told of an error:
	// the endpoint works, and what failed was this request.
	ErrorInside bool

	// Of a streamed answer; seconds since Ticket.Sent, NaN when not seen.
	TTFT feature.Seconds
	TPOT feature.Seconds
	E2E  feature.Seconds

	PromptTokens float64 // as the engine counted; NaN when it does not say
	OutputTokens float64 // from usage, else counted; NaN when neither
	CachedTokens float64 // as the engine reported; NaN when it does not
}
