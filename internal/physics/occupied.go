package physics

import "github.com/spillway-llm/spillway/internal/feature"

// Occupied is for how long request r takes one engine of profile p from others,
// while its batches are as full as they can be: its prefill, and of each step that
// decodes for it what it adds to the step itself and, of what any step takes, the
// share that it has of the batch: one sequence of those that there may be, or its
// tokens of those that the cache holds, whichever is more. The speed factor of
// the profile scales all of it; what is not known is left out.
//
// Requests that together occupy an engine for more than a second of each second
// are more than it can serve for ever, whatever order it takes them in.
func Occupied(c Coefficients, r feature.Request, p feature.Profile) feature.Seconds {
	if s := p.SpeedFactor; s > 0 {
		c = c.Scaled(s)
	}
	tokens := known(r.ExpectedOutputTokens)
	context := r.PromptTokens + tokens/2
	share := 0.0
	if p.MaxNumSeqs > 0 {
		share = 1 / p.MaxNumSeqs
	}
	if p.KVCapacityTokens > 0 {
		share = max(share, min(1, context/p.KVCapacityTokens))
	}
	step := c.A*share + c.D + c.E*context
	return c.Work(r.PromptTokens, r.UncachedTokens()) + feature.Seconds(max(1, known(r.Completions))*tokens*step)
}
