package calibrate

import "github.com/spillway-llm/spillway/internal/feature"

// Prefilled is one prompt that was sent to an idle engine.
type Prefilled struct {
	Size         int             `json:"size"`          // tokens that were planned
	Bytes        int             `json:"bytes"`         // of the prompt's text
	PromptTokens int             `json:"prompt_tokens"` // as the engine counted them
	CachedTokens int             `json:"cached_tokens"` // of those, found in its cache; 0 when not told
	TTFT         feature.Seconds `json:"ttft"`
}

// Decoded is the part of one batch in which all of its sequences decoded and
// none prefilled.
type Decoded struct {
	Sequences     int             `json:"sequences"`
	PromptTokens  int             `json:"prompt_tokens"`  // of each sequence, as planned
	ContextTokens float64         `json:"context_tokens"` // that all sequences read in one step, on average
	Steps         int             `json:"steps"`          // fewest of any sequence
	TokensPerStep float64         `json:"tokens_per_step"`
	TPOT          feature.Seconds `json:"tpot"` // median over the sequences
}

// LeastSteps is the fewest steps that tell a TPOT: fewer average too little of
// the noise of a step.
const LeastSteps = 8

// Measurements is what was measured of one engine.
type Measurements struct {
	Prefills []Prefilled `json:"prefills"`
	Decodes  []Decoded   `json:"decodes"`
}
