package front

import (
	"bytes"
	"iter"
	"net/http"
	"strings"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/openai"
	"github.com/spillway-llm/spillway/router/route"
)

// Request is a request as it stands on a front door's desk.
type Request struct {
	Method string
	Path   string
	Header http.Header
	Body   []byte // whole; it must not change while what was read from it is in use
	Hidden bool   // there may be a body, but it is not shown here: all goes by load
}

// Read reads what a client asks for into q; scanned is what its body says. Both
// are overwritten; q uses the storage of scanned.
//
// Bodies are understood on POST to the paths of openai.API alone. Everything
// else goes by load, to the LLM its body names if it names one.
//
// Errors are Faults.
func (r *Request) Read(q *route.Query, scanned *openai.Request) error {
	unset := feature.Seconds(feature.Unknown)
	*q = route.Query{MaxOutputTokens: -1, SLOTTFT: unset, SLOTPOT: unset}
	var asked hints
	if err := asked.readHeaders(r.Header); err != nil {
		return err
	}
	asked.tell(q)
	if r.Method != http.MethodPost || r.Hidden {
		*scanned = openai.Request{MaxTokens: -1, N: 1}
		return nil
	}
	if api := openai.APIOf(r.Path); api != openai.Other {
		if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
			return Refuse(http.StatusUnsupportedMediaType, "content_encoding", "compressed request bodies are not understood: send it without Content-Encoding")
		}
	}
	if err := scanned.Scan(r.Body, r.Path); err != nil {
		return BadRequest("bad_request", "%s", err.Error())
	}
	if err := asked.readBody(r.Body[scanned.Hints.Start:scanned.Hints.End]); err != nil {
		return err
	}
	asked.tell(q)
	fill(q, scanned, r.Body)
	return nil
}

// fill tells route what a body says.
//
// The body's own `priority` is left to the engine: there lower means sooner,
// here it means expendable. Ours is in `spillway`; see hints.
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
