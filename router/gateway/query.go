package gateway

import (
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
	q.PromptTokens = scanned.TokenIDs
	q.Images = scanned.Images
	q.Salt = scanned.CacheSalt
	q.MaxOutputTokens = scanned.MaxTokens
	q.Completions = scanned.N
	q.Streaming = scanned.Stream
}

func pieces(body []byte, spans []openai.Span) iter.Seq[[]byte] {
	if len(spans) == 0 {
		return nil
	}
	return func(yield func([]byte) bool) {
		for _, s := range spans {
			if !yield(body[s.Start:s.End]) {
				return
			}
		}
	}
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
