package gateway

import (
	"bytes"
	"iter"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/openai"
	"github.com/spillway-llm/spillway/router/route"
)

// begin scans body, asks route for a decision and keeps what serving needs.
//
// Bodies are understood on POST to the paths of openai.API alone. Everything
// else goes by load, to the LLM its body names if it names one.
func (x *exchange) begin(body []byte) error {
	began := time.Now()
	unset := feature.Seconds(feature.Unknown)
	q := route.Query{MaxOutputTokens: -1, SLOTTFT: unset, SLOTPOT: unset}
	if err := readHeaders(&q, x.r.Header); err != nil {
		return err
	}
	var scanned openai.Request
	if x.r.Method == http.MethodPost {
		if api := openai.APIOf(x.r.URL.Path); api != openai.Other {
			if e := x.r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
				return fault{http.StatusUnsupportedMediaType, "content_encoding", "compressed request bodies are not understood: send it without Content-Encoding", 0}
			}
		}
		if err := scanned.Scan(body, x.r.URL.Path); err != nil {
			return badRequest("bad_request", "%s", err.Error())
		}
		fill(&q, &scanned, body)
	}
	t, err := x.g.router.Begin(x.r.Context(), &q)
	x.g.metrics.decide.Observe(time.Since(began).Seconds())
	if err != nil {
		return undecided(err)
	}
	x.ticket = t
	x.api = scanned.API
	x.stream, x.many = scanned.Stream, scanned.N > 1
	x.body = body
	if x.g.config.AskUsage {
		x.body = scanned.WithUsage(body)
		x.strip = len(body) > 0 && &x.body[0] != &body[0]
	}
	return nil
}

// fill tells route what a body says.
//
// The body's own `priority` is left to the engine: there lower means sooner,
// here it means expendable.
func fill(q *route.Query, scanned *openai.Request, body []byte) {
	q.LLM = scanned.Model
	q.Prompt = pieces(body, scanned.Prompt)
	q.PromptBytes = scanned.PromptBytes
	q.PromptTokens = scanned.TokenIDs + mediaTokens*count(scanned.Prompt, openai.Media)
	q.Salt = scanned.CacheSalt
	q.MaxOutputTokens = scanned.MaxTokens
	q.Completions = scanned.N
	q.Streaming = scanned.Stream
}

// mediaTokens is what an image, a sound or a file counts for: about an image
// of a megapixel to today's vision models.
const mediaTokens = 800

func count(spans []openai.Span, kind openai.Kind) (n int) {
	for _, s := range spans {
		if s.Kind == kind {
			n++
		}
	}
	return n
}

// pieces are the parts of the prompt that lie in spans of body.
func pieces(body []byte, spans []openai.Span) iter.Seq[route.Piece] {
	if len(spans) == 0 {
		return nil
	}
	return func(yield func(route.Piece) bool) {
		for _, s := range spans {
			more := false
			switch part := body[s.Start:s.End]; s.Kind {
			case openai.Media:
				more = yield(route.Piece{Bytes: part, Tokens: mediaTokens})
			case openai.Tokens:
				more = yieldIDs(part, yield)
			default:
				more = yield(route.Piece{Bytes: part})
			}
			if !more {
				return
			}
		}
	}
}

// yieldIDs yields every token id of a JSON array as a piece of its own, so
// that prompts share the ids they have in common.
func yieldIDs(array []byte, yield func(route.Piece) bool) bool {
	for more := true; more; {
		var id []byte
		id, array, more = bytes.Cut(array, []byte{','})
		if !yield(route.Piece{Bytes: bytes.Trim(id, "[] \t\r\n"), Tokens: 1}) {
			return false
		}
	}
	return true
}

// readHeaders reads the objectives and the priority that a client set.
func readHeaders(q *route.Query, h http.Header) error {
	for _, slo := range []struct {
		name string
		into *feature.Seconds
	}{{headerSLOTTFT, &q.SLOTTFT}, {headerSLOTPOT, &q.SLOTPOT}} {
		text, err := one(h, slo.name)
		if err != nil {
			return err
		}
		if text == "" {
			continue
		}
		ms, err := strconv.ParseFloat(text, 64)
		if err != nil || !(ms > 0) || math.IsInf(ms, 0) {
			return badRequest("bad_header", "header %s: %q is not a positive number of milliseconds", strings.ToLower(slo.name), clip(text))
		}
		*slo.into = feature.Seconds(ms / 1000)
	}
	text, err := one(h, headerPriority)
	if err != nil || text == "" {
		return err
	}
	priority, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return badRequest("bad_header", "header %s: %q is not a whole number", strings.ToLower(headerPriority), clip(text))
	}
	q.Priority = int(priority)
	return nil
}

// one returns the value of a header that may be given once, "" when it is not.
func one(h http.Header, name string) (string, error) {
	values := h.Values(name)
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		if text := strings.TrimSpace(values[0]); text != "" {
			return text, nil
		}
		return "", badRequest("bad_header", "header %s is empty: give a value or leave it out", strings.ToLower(name))
	}
	return "", badRequest("bad_header", "header %s is given %d times: give it once", strings.ToLower(name), len(values))
}

// clip shortens what is quoted back.
func clip(s string) string {
	if len(s) > 32 {
		return s[:32] + "..."
	}
	return s
}
