package front

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/openai"
	"github.com/spillway-llm/spillway/router/route"
)

// Answer is what is heard of one endpoint's answer while it passes. Its ticket
// is told of tokens as they come; what is to be learned of the whole is in End.
type Answer struct {
	Ticket *route.Ticket
	API    openai.API
	Many   bool // more than one completion was asked for

	status int
	meter  *openai.Meter // nil: the answer is not metered
	told   int           // events that the ticket was told
}

var meters = sync.Pool{New: func() any { return new(openai.Meter) }}

// Open begins the answer with its status and headers. It is metered where its
// body can be understood.
func (a *Answer) Open(status int, h http.Header) {
	a.status = status
	if a.meter == nil && a.API != openai.Other && status == http.StatusOK && plain(h) {
		a.meter = meters.Get().(*openai.Meter)
	}
}

// OpenUnheard begins the answer with its status, of which no more is heard.
func (a *Answer) OpenUnheard(status int) { a.status = status }

// plain reports whether a body is what it seems.
func plain(h http.Header) bool {
	e := h.Get("Content-Encoding")
	return e == "" || strings.EqualFold(e, "identity")
}

// Close gives back what the answer holds. It must not be used after that.
func (a *Answer) Close() {
	if a.meter != nil {
		a.meter.Reset()
		meters.Put(a.meter)
		a.meter = nil
	}
}

// Metered reports whether the answer's body is understood.
func (a *Answer) Metered() bool { return a.meter != nil }

// Complete reports whether the body said that it was whole: what may still
// come says nothing new.
func (a *Answer) Complete() bool { return a.meter != nil && a.meter.Done() }

// Hear meters the next bytes of the body, which came at now, and tells the
// ticket what they brought.
func (a *Answer) Hear(p []byte, now time.Time) {
	if a.meter == nil {
		return
	}
	before := a.meter.FirstToken().IsZero()
	a.meter.Write(p, now)
	first := a.meter.FirstToken()
	if first.IsZero() {
		return
	}
	tokens, events := a.meter.NewTokens(), a.meter.Events()-a.told
	a.told += events
	if before {
		a.Ticket.FirstToken(first)
		tokens--
		events--
	}
	a.Ticket.Progress(tokens, events, now)
}

// Finish says that the body came to its end at now.
func (a *Answer) Finish(now time.Time) {
	if a.meter != nil {
		a.meter.Finish(now)
	}
}

// What may be wrong with an answer that was passed on to its end.
var (
	ErrStatus    = errors.New("the endpoint answered with an error status")
	ErrInside    = errors.New("the answer has an error inside")
	ErrTruncated = errors.New("the answer ended without its closing event")
)

// Judge says how a request ended whose answer was passed on to its end, and
// what was wrong with the answer.
//
// Some engines leave out the closing event; a finish reason is as good.
func (a *Answer) Judge() (feature.Status, error) {
	if a.status >= 400 || a.API != openai.Other && a.status >= 300 {
		return feature.UpstreamError, ErrStatus
	}
	if a.meter == nil {
		return feature.OK, nil
	}
	if _, failed := a.meter.Failure(); failed {
		return feature.UpstreamError, ErrInside
	}
	if !a.meter.Done() && a.meter.FinishReason() == "" {
		return feature.UpstreamError, ErrTruncated
	}
	return feature.OK, nil
}

// Malformed is how many events of the answer were no JSON objects.
func (a *Answer) Malformed() int {
	if a.meter == nil {
		return 0
	}
	return a.meter.Malformed()
}

// Skipped is how many events of the answer were too long to be read.
func (a *Answer) Skipped() int {
	if a.meter == nil {
		return 0
	}
	return a.meter.Skipped()
}

// Usage reports whether the engine said how many tokens there were.
func (a *Answer) Usage() bool {
	if a.meter == nil {
		return false
	}
	u, ok := a.meter.Usage()
	return ok && (u.CompletionTokens >= 0 || a.API == openai.Embeddings)
}

// End is how the request ended at now: how, with the HTTP status that the
// client saw, dispatched when it was (the zero time: unknown when), err from
// Judge or nil. What was not seen is unknown.
func (a *Answer) End(how feature.Status, httpStatus int, dispatched, now time.Time, err error) route.End {
	unknown := feature.Unknown
	e := route.End{
		Status: how, HTTPStatus: httpStatus, ErrorInside: errors.Is(err, ErrInside),
		TTFT: feature.Seconds(unknown), TPOT: feature.Seconds(unknown), E2E: feature.Seconds(unknown),
		PromptTokens: unknown, OutputTokens: unknown, CachedTokens: unknown,
	}
	if how == feature.OK && !dispatched.IsZero() {
		e.E2E = feature.SecondsOf(now.Sub(dispatched))
	}
	if a.meter != nil {
		a.label(&e, dispatched)
	}
	return e
}

// label fills in what the meter saw. The tokens of several completions arrive
// mixed: the time between two of them is no time per output token.
func (a *Answer) label(e *route.End, dispatched time.Time) {
	seen := a.meter.Labels(dispatched, time.Time{})
	if !dispatched.IsZero() {
		e.TTFT = feature.Seconds(seen.TTFT)
	}
	if !a.Many {
		e.TPOT = feature.Seconds(seen.TPOT)
	}
	usage, _ := a.meter.Usage()
	if usage.PromptTokens >= 0 {
		e.PromptTokens = float64(usage.PromptTokens)
	}
	if usage.CachedTokens >= 0 {
		e.CachedTokens = float64(usage.CachedTokens)
	}
	if usage.CompletionTokens >= 0 {
		e.OutputTokens = float64(usage.CompletionTokens)
	} else if a.meter.Events() > 0 {
		e.OutputTokens = float64(a.meter.Events())
	}
}
