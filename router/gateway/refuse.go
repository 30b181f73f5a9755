package gateway

import (
	"net/http"
	"strconv"

	"github.com/spillway-llm/spillway/router/front"
)

// refuse answers with f.
func (g *Gateway) refuse(w http.ResponseWriter, f front.Fault) {
	g.metrics.refusals.WithLabelValues(f.Reason).Inc()
	writeFault(w, f)
}

func writeFault(w http.ResponseWriter, f front.Fault) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set(front.HeaderReason, f.Reason)
	if after := f.RetryAfterSeconds(); after != "" {
		h.Set("Retry-After", after)
	}
	if f.Decision != "" {
		h.Set(front.HeaderDecision, f.Decision)
	}
	body := f.Body()
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(f.Status)
	w.Write(body) // a client that is gone has no use for it
}

// reject answers a request that got no ticket.
func (x *exchange) reject(err error) {
	f, broken := front.FaultOf(x.r.Context(), err)
	if broken != nil {
		x.g.log.Error("request failed in the router", "error", broken)
	}
	x.g.config.Tracer.Of(x.r.Context()).Fail(f.Reason)
	x.g.refuse(x.w, f)
}
