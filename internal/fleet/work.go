package fleet

import "time"

// Work is what an engine's steps have computed: what the coefficients of its
// profile stand before.
type Work struct {
	Steps    float64 // A
	Prefill  float64 // B: tokens
	Attended float64 // C: tokens x mean context
	Decoding float64 // D: sequences, over the steps
	Read     float64 // E: context tokens that they read, over the steps; of a shared block once
}

func (w *Work) add(o *Work, share float64) {
	w.Steps += share * o.Steps
	w.Prefill += share * o.Prefill
	w.Attended += share * o.Attended
	w.Decoding += share * o.Decoding
	w.Read += share * o.Read
}

// Worked is what the engine has computed until a time, which must not lie before
// the beginning of its last step: of a step that is under way the part that has
// passed.
func (e *Engine) Worked(until time.Duration) Work {
	w, share := e.worked, 1.0
	if until < e.stepEnd {
		share = float64(until-e.stepBegan) / float64(e.stepEnd-e.stepBegan)
	}
	w.add(&e.step, share)
	return w
}
