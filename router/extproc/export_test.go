package extproc

import (
	"time"

	"github.com/spillway-llm/spillway/router/front"
)

// Refusal is the headers of a refusal.
func Refusal(f front.Fault) map[string]string {
	headers := map[string]string{}
	for _, h := range refusal(f).GetImmediateResponse().GetHeaders().GetSetHeaders() {
		headers[h.GetHeader().GetKey()] = string(h.GetHeader().GetRawValue())
	}
	return headers
}

// Sweep ends the streams that would be silent for too long by then.
func (p *Picker) Sweep(then time.Time) { p.watch.sweep(then) }
