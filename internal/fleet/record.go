package fleet

import (
	"encoding/binary"
	"slices"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/prefix"
)

// note begins the row of a request that was just decided on.
func (w *world) note(c *call) {
	if w.config.Rows == nil {
		return
	}
	r, t := c.replica, &c.ticket
	candidate := &r.input.Candidates[c.endpoint]
	c.row = &feature.Row{
		DecidedAt: t.decided, Endpoint: candidate.Endpoint, Class: candidate.Class, Schema: feature.Schema,
		Vector:   candidate.Vector(&r.input.Request),
		Explored: r.choice.Explored && r.choice.Index == c.endpoint,
		Forecast: r.said(c.endpoint), Corrected: t.forecast,
	}
	binary.BigEndian.PutUint64(c.row.Decision[8:], c.id)
	c.row.PromptDigest = r.digest(c.request.Prompt.Chain)
}

// digest is that of a prompt, of which all is known that the index knew before it.
func (r *router) digest(chain []uint64) []byte {
	if len(chain) == 0 {
		return nil
	}
	if r.digester == nil {
		d := prefix.NewDigester([16]byte{}) // nobody's prompts
		r.digester = &d
	}
	return r.digester.Append(make([]byte, 0, prefix.MaxDigest), chain, int(slices.Max(r.matches)))
}

// record hands over the row of a request that ended so.
func (w *world) record(c *call, o *Outcome) {
	if c.row == nil {
		return
	}
	c.row.Outcome = w.outcome(c, o)
	w.config.Rows(c.row)
	c.row = nil
}

// outcome is what production would note of a request that ended so. An end before
// the first token tells only that it would have come later; of a request that was
// cut off after it, nothing but its TTFT is known.
func (w *world) outcome(c *call, o *Outcome) feature.Outcome {
	unknown := feature.Seconds(feature.Unknown)
	out := feature.Outcome{
		DecidedAt: c.ticket.decided, Attempt: 1, Status: o.Status,
		TTFT: unknown, TPOT: unknown, E2E: unknown, CensoredAt: unknown,
		OutputTokens: float64(o.OutputTokens), CachedTokens: float64(o.CachedTokens), FinishedAt: w.time(w.now),
	}
	binary.BigEndian.PutUint64(out.Decision[8:], c.id)
	if o.Status == feature.Shed {
		out.DecidedAt, out.OutputTokens, out.CachedTokens = w.time(w.now), feature.Unknown, feature.Unknown
		return out
	}
	out.Endpoint = c.ticket.target.id
	switch {
	case o.OutputTokens > 0:
		out.TTFT = feature.SecondsOf(o.TTFT)
	case o.Status != feature.UpstreamError: // refused: says nothing of how long it would have taken
		out.CensoredAt = feature.SecondsOf(o.E2E)
	}
	if o.Status == feature.OK {
		out.E2E = feature.SecondsOf(o.E2E)
		if o.OutputTokens > 1 {
			out.TPOT = feature.SecondsOf(o.TPOT)
		}
	}
	return out
}
