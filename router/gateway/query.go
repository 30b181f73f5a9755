package gateway

import (
	"time"

	"github.com/spillway-llm/spillway/internal/openai"
	"github.com/spillway-llm/spillway/router/front"
	"github.com/spillway-llm/spillway/router/route"
)

// begin scans the body that was read, asks route for a decision and keeps what
// serving needs.
func (x *exchange) begin() error {
	var body []byte
	if x.held != nil {
		body = x.held.bytes
	}
	began := time.Now()
	asked := front.Request{Method: x.r.Method, Path: x.r.URL.Path, Header: x.r.Header, Body: body}
	var q route.Query
	scanned := x.g.scans.Get().(*openai.Request)
	defer x.g.putScan(scanned) // route keeps nothing of the prompt
	if err := asked.Read(&q, scanned); err != nil {
		return err
	}
	t, err := x.g.router.Begin(x.r.Context(), &q)
	x.g.metrics.decide.Observe(time.Since(began).Seconds())
	if err != nil {
		return front.Undecided(err)
	}
	x.ticket = t
	x.api = scanned.API
	x.stream = scanned.Stream
	x.heard = front.Answer{Ticket: t, API: scanned.API, Many: scanned.N > 1}
	x.body = body
	if x.g.config.AskUsage {
		x.body = scanned.WithUsage(body)
		if x.strip = len(body) > 0 && &x.body[0] != &body[0]; x.strip {
			x.letGo()
		}
	}
	return nil
}

// mostSpans is the longest list of spans that is used again: a long conversation
// has some hundred.
const mostSpans = 4096

func (g *Gateway) putScan(r *openai.Request) {
	if cap(r.Prompt) <= mostSpans {
		g.scans.Put(r)
	}
}
