package gateway

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/openai"
	"github.com/spillway-llm/spillway/router/front"
)

// pass streams an answer to the client: each read is written, flushed and then
// metered, at the time it was read.
func (x *exchange) pass(a *answer) {
	defer a.close()
	var strip *openai.StripUsage
	if x.strip && eventStream(a.Header) {
		strip = new(openai.StripUsage)
	}
	x.heard.Open(a.StatusCode, a.Header)
	h := x.w.Header()
	inbound(h, a.Response, strip != nil)
	announced := len(a.Trailer)
	x.name()
	if a.StatusCode >= 400 {
		h.Set(front.HeaderReason, "upstream_status")
	}
	x.status = a.StatusCode
	x.w.WriteHeader(a.StatusCode)

	var filtered []byte
	for {
		if a.n > 0 {
			out := (*a.buf)[:a.n]
			if strip != nil {
				filtered = strip.Filter(filtered[:0], out)
				out = filtered
			}
			err := x.write(out)
			x.heard.Hear((*a.buf)[:a.n], a.at)
			if err != nil {
				x.end(x.clientGone(), a.at, err)
				panic(http.ErrAbortHandler)
			}
		}
		if a.err != nil {
			break
		}
		a.timer.Reset(x.g.config.Timeouts.Idle)
		a.n, a.err = a.Body.Read(*a.buf)
		a.at = time.Now()
		a.timer.Stop()
	}
	if a.err != io.EOF {
		x.broken(causeOf(a.ctx, a.err), a.at)
		panic(http.ErrAbortHandler) // half an answer must not look whole
	}
	if strip != nil {
		if err := x.write(strip.Flush(filtered[:0])); err != nil {
			x.end(x.clientGone(), a.at, err)
			panic(http.ErrAbortHandler)
		}
	}
	x.heard.Finish(a.at)
	trail(h, a.Response, announced)
	how, err := x.heard.Judge()
	x.g.metrics.answers.Heard(&x.heard, how)
	x.end(how, a.at, err)
}

// write hands p to the client now. A client that does not take it in time is
// gone: its endpoint must not generate for nobody.
func (x *exchange) write(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if x.control.SetWriteDeadline(time.Now().Add(x.g.config.Timeouts.Write)) == nil {
		x.deadlines = true
	}
	if _, err := x.w.Write(p); err != nil {
		return err
	}
	x.g.metrics.answerBytes.Add(float64(len(p)))
	if err := x.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// broken ends an answer that stopped in the middle.
func (x *exchange) broken(err error, now time.Time) {
	switch {
	case x.stopping() || x.r.Context().Err() != nil:
		x.end(x.clientGone(), now, err)
	case errors.Is(err, errSilent):
		x.end(feature.UpstreamTimeout, now, err)
	default:
		x.end(feature.UpstreamError, now, err)
	}
}

// clientGone says how a request ended whose client takes no more.
func (x *exchange) clientGone() feature.Status {
	if x.stopping() {
		return feature.Lost
	}
	return feature.ClientAbort
}

func eventStream(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}
