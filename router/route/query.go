package route

import (
	"iter"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Query is a request as a front door understood it.
type Query struct {
	LLM string // empty: any endpoint may serve it (a path that names no LLM)

	// Prompt yields the prompt's bytes in template order, pieces of the body
	// as they stand there. Nil or empty: there is no prefix to go by.
	Prompt       iter.Seq[[]byte]
	PromptBytes  int    // sum of their lengths
	PromptTokens int    // where the prompt came as token ids; else 0 and bytes are converted
	Images       int    // images beside the text
	Salt         string // cache salt, LoRA adapter: part of the prefix

	MaxOutputTokens int // the request's own limit; negative when it gives none
	Completions     int // the field n; 0 means 1
	Streaming       bool
	SLOTTFT         feature.Seconds // NaN when unset; 0 is not unset
	SLOTPOT         feature.Seconds
	Priority        int
}

// End is how a request ended, as the front door saw it.
type End struct {
	Status     feature.Status
	HTTPStatus int // of the answer the client saw

	// Of a streamed answer; seconds since Ticket.Sent, NaN when not seen.
	TTFT feature.Seconds
	TPOT feature.Seconds
	E2E  feature.Seconds

	PromptTokens float64 // as the engine counted; NaN when it does not say
	OutputTokens float64 // from usage, else counted; NaN when neither
	CachedTokens float64 // as the engine reported; NaN when it does not
}
