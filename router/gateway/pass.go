package gateway

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/openai"
	"github.com/spillway-llm/spillway/router/route"
)

// pass streams an answer to the client: each read is written, flushed and then
// metered, at the time it was read.
func (x *exchange) pass(a *answer) {
	defer a.close()
	var strip *openai.StripUsage
	if x.strip && eventStream(a.Header) {
		strip = new(openai.StripUsage)
	}
	if x.understood() && a.StatusCode == http.StatusOK && plain(a.Header) {
		x.meter = x.g.meters.Get().(*openai.Meter)
	}
	h := x.w.Header()
	inbound(h, a.Response, strip != nil)
	announced := len(a.Trailer)
	x.name()
	if a.StatusCode >= 400 {
		h.Set(headerReason, "upstream_status")
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
			x.listen((*a.buf)[:a.n], a.at)
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
	if x.meter != nil {
		x.meter.Finish(a.at)
	}
	trail(h, a.Response, announced)
	how, err := x.judge()
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

// listen meters p, read at now, and tells the ticket what it brought.
func (x *exchange) listen(p []byte, now time.Time) {
	if x.meter == nil {
		return
	}
	before := x.meter.FirstToken().IsZero()
	x.meter.Write(p, now)
	first := x.meter.FirstToken()
	if first.IsZero() {
		return
	}
	tokens, events := x.meter.NewTokens(), x.meter.Events()-x.heard
	x.heard += events
	if before {
		x.ticket.FirstToken(first)
		tokens--
		events--
	}
	x.ticket.Progress(tokens, events, now)
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

var (
	errStatus    = errors.New("the endpoint answered with an error status")
	errInside    = errors.New("the answer has an error inside")
	errTruncated = errors.New("the answer ended without its closing event")
)

// judge says how a request ended whose answer was passed on to its end.
//
// Some engines leave out the closing event; a finish reason is as good.
func (x *exchange) judge() (feature.Status, error) {
	if x.status >= 400 || x.understood() && x.status >= 300 {
		return feature.UpstreamError, errStatus
	}
	if x.meter == nil {
		return feature.OK, nil
	}
	if n := x.meter.Malformed(); n > 0 {
		x.g.metrics.unread.WithLabelValues("malformed").Add(float64(n))
	}
	if n := x.meter.Skipped(); n > 0 {
		x.g.metrics.unread.WithLabelValues("too_long").Add(float64(n))
	}
	if _, failed := x.meter.Failure(); failed {
		return feature.UpstreamError, errInside
	}
	if !x.meter.Done() && x.meter.FinishReason() == "" {
		return feature.UpstreamError, errTruncated
	}
	usage := "absent"
	if u, ok := x.meter.Usage(); ok && (u.CompletionTokens >= 0 || x.api == openai.Embeddings) {
		usage = "reported"
	}
	x.g.metrics.usage.WithLabelValues(usage).Inc()
	return feature.OK, nil
}

// label fills in what the meter saw. The tokens of several completions arrive
// mixed: the time between two of them is no time per output token.
func (x *exchange) label(e *route.End) {
	seen := x.meter.Labels(x.dispatched, time.Time{})
	e.TTFT = feature.Seconds(seen.TTFT)
	if !x.many {
		e.TPOT = feature.Seconds(seen.TPOT)
	}
	usage, _ := x.meter.Usage()
	if usage.PromptTokens >= 0 {
		e.PromptTokens = float64(usage.PromptTokens)
	}
	if usage.CachedTokens >= 0 {
		e.CachedTokens = float64(usage.CachedTokens)
	}
	if usage.CompletionTokens >= 0 {
		e.OutputTokens = float64(usage.CompletionTokens)
	} else if x.meter.Events() > 0 {
		e.OutputTokens = float64(x.meter.Events())
	}
}

func eventStream(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}

// plain reports whether a body is what it seems.
func plain(h http.Header) bool {
	e := h.Get("Content-Encoding")
	return e == "" || strings.EqualFold(e, "identity")
}
