package openai

import "fmt"

// Request is what routing reads from a request body. Offsets refer to the body
// that was scanned, which must outlive them unchanged.
type Request struct {
	API API
	// Model is the name of the LLM asked for.
	Model  string
	Stream bool
	// IncludeUsage is stream_options.include_usage: the client itself wants
	// the closing usage chunk.
	IncludeUsage bool
	// MaxTokens is the most tokens the client lets one completion have, from
	// max_completion_tokens, else max_tokens (Responses: max_output_tokens).
	// -1: not said, or said to be unlimited by a negative number.
	MaxTokens int
	// N is the number of completions asked for, from 1 to 128.
	N int
	// Priority is the body's priority hint, as it stands; HasPriority tells
	// whether there was one.
	Priority    int
	HasPriority bool
	// Hints is the object under the body's key `spillway`, as it stands: what a
	// client that can't set headers tells the router. Empty where absent.
	Hints Span
	// CacheSalt separates prefix caches: requests of different salts share
	// nothing.
	CacheSalt string
	// Prompt lists the parts of the body that make up the prompt, in the order
	// chat templates render them: tools, system text, messages. It is valid
	// until the next Scan into this Request.
	Prompt []Span
	// PromptBytes is the length of the prompt's text as it stands in the body,
	// escapes included; media and token ids do not count.
	PromptBytes int
	// Images counts the image parts among the messages.
	Images int
	// TokenIDs is the number of tokens of a prompt given as token ids, else 0.
	TokenIDs int

	spans    []Span // storage of Prompt, kept for reuse
	tokenIDs int
	open     int  // offset behind the body's opening brace
	options  Span // stream_options as it stands; empty where absent
	include  Span // the value of include_usage inside it
}

// mostCompletions is the most that `n` may be: the OpenAI API's own bound.
const mostCompletions = 128

// Error says what is wrong with a request body: its JSON, or one value in it.
// It is the client's fault (HTTP 400) and contains nothing of the body but the
// key.
type Error struct {
	// Key is the top-level key at or in which the fault lies, cut to 64 bytes;
	// "" before the first.
	Key string
	// Offset is the byte of the body the fault is at.
	Offset int
	Reason string
}

func (e *Error) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("request body, byte %d: %s", e.Offset, e.Reason)
	}
	return fmt.Sprintf("request body, byte %d, in `%s`: %s", e.Offset, e.Key, e.Reason)
}

// Scan reads a body posted to path in one pass. It checks that the whole body
// is one valid JSON object, nested at most MaxDepth deep, and reports an *Error
// where it is not, where a key it understands has a value of the wrong type, or
// where `model` is missing. A null value counts as absent, and of a repeated
// key the last one counts, as in the engines' own readers. Where the path is
// not understood, the body may be anything and is no error.
//
// Scan allocates the model name, the salt and the span list; callers that keep
// a Request for reuse allocate nothing by calling its Scan method.
func Scan(body []byte, path string) (Request, error) {
	var r Request
	err := r.Scan(body, path)
	return r, err
}

// Scan is the function Scan, reading into r: it overwrites r and reuses its
// storage.
func (r *Request) Scan(body []byte, path string) error {
	api := APIOf(path)
	*r = Request{API: api, Model: r.Model, CacheSalt: r.CacheSalt, MaxTokens: -1, N: 1, spans: r.spans}
	s := scanner{cursor: cursor{b: body}, r: r, api: api}
	err := s.body()
	if api == Other && err != nil {
		*r = Request{MaxTokens: -1, N: 1, spans: r.spans}
		return nil
	}
	return err
}

// scanner is the state of one pass over one body.
type scanner struct {
	cursor
	r   *Request
	api API
	key []byte // the top-level key being read

	hasModel, hasSalt      bool
	maxTokens, maxComplete int
	turns                  section
}

func (s *scanner) body() error {
	s.maxTokens, s.maxComplete = -1, -1
	s.turns.begin(s.r)
	if s.space() != '{' {
		s.fail("expected a JSON object")
	}
	o := s.object()
	s.r.open = s.i
	for o.next(&s.cursor) {
		s.key = o.key
		if !s.member() {
			break
		}
	}
	if s.why == "" {
		s.key = nil
		s.end()
	}
	if s.why != "" {
		return &Error{Key: string(s.key[:min(len(s.key), 64)]), Offset: s.at, Reason: s.why}
	}
	if !s.hasModel && s.api != Other {
		return &Error{Key: "model", Offset: len(s.b), Reason: "missing: say which LLM this request is for"}
	}
	if !s.hasModel {
		s.r.Model = ""
	}
	if !s.hasSalt {
		s.r.CacheSalt = ""
	}
	s.r.MaxTokens = s.maxTokens
	if s.maxComplete >= 0 {
		s.r.MaxTokens = s.maxComplete
	}
	s.turns.finish(s.r)
	return nil
}

// member reads the value of one top-level key.
func (s *scanner) member() bool {
	r := s.r
	switch string(s.key) {
	case "model":
		return s.str(&r.Model, &s.hasModel)
	case "cache_salt":
		return s.str(&r.CacheSalt, &s.hasSalt)
	case "stream":
		r.Stream = false
		return s.bool(&r.Stream)
	case "stream_options":
		return s.streamOptions()
	case "spillway":
		return s.hints()
	case "n":
		r.N = 1
		if at := s.here(); !s.int(&r.N) {
			return false
		} else if r.N < 1 || r.N > mostCompletions {
			return s.failAt(at, "must be a whole number from 1 to 128")
		}
		return true
	case "priority":
		r.Priority = 0
		r.HasPriority = s.space() != 'n'
		return s.int(&r.Priority)
	case "max_tokens":
		s.maxTokens = -1
		return s.limit(&s.maxTokens, s.api != Responses)
	case "max_completion_tokens":
		s.maxComplete = -1
		return s.limit(&s.maxComplete, s.api != Responses)
	case "max_output_tokens":
		if s.api != Responses {
			return s.skip()
		}
		s.maxComplete = -1
		return s.limit(&s.maxComplete, true)
	}
	return s.prompt()
}

// hints notes where the object of hints stands.
func (s *scanner) hints() bool {
	s.r.Hints = Span{}
	from := s.here()
	switch s.space() {
	case 'n':
		return s.literal("null")
	case '{':
		ok := s.skip()
		s.r.Hints = Span{Start: from, End: s.i}
		return ok
	}
	return s.fail("must be an object")
}

// here skips white space and returns the offset of the value that follows.
func (s *scanner) here() int {
	s.space()
	return s.i
}

func (s *scanner) failAt(at int, why string) bool {
	s.i = at
	return s.fail(why)
}

// str reads a string or null into v, leaving the string that is already there
// where it is the same, so that a reused Request does not allocate.
func (s *scanner) str(v *string, has *bool) bool {
	*has = false
	if s.null() {
		return true
	}
	if s.space() != '"' {
		return s.fail("must be a string")
	}
	raw, _, ok := s.text()
	if !ok {
		return false
	}
	*has = true
	if string(raw) == *v && isASCII(raw) {
		return true
	}
	*v = string(unescape(nil, raw))
	return true
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 || c == '\\' {
			return false
		}
	}
	return true
}

func (s *scanner) bool(v *bool) bool {
	switch s.space() {
	case 't':
		*v = true
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.fail("must be true or false")
}

func (s *scanner) int(v *int) bool {
	if s.space() == 'n' {
		return s.literal("null")
	}
	at := s.i
	if b := s.space(); b != '-' && (b < '0' || b > '9') {
		return s.fail("must be a whole number")
	}
	raw, ok := s.number()
	if !ok {
		return false
	}
	n, ok := integer(raw)
	if !ok {
		return s.failAt(at, "must be a whole number")
	}
	*v = n
	return true
}

// limit reads a token limit; negative ones mean "unlimited" to some engines.
func (s *scanner) limit(v *int, understood bool) bool {
	if !understood {
		return s.skip()
	}
	if !s.int(v) {
		return false
	}
	*v = max(*v, -1)
	return true
}

func (s *scanner) streamOptions() bool {
	r := s.r
	r.IncludeUsage, r.include = false, Span{}
	r.options.Start = s.here()
	if s.space() == 'n' {
		ok := s.literal("null")
		r.options.End = s.i
		return ok
	}
	if s.space() != '{' {
		return s.fail("must be an object")
	}
	for o := s.object(); o.next(&s.cursor); {
		if string(o.key) != "include_usage" {
			if !s.skip() {
				return false
			}
			continue
		}
		r.IncludeUsage = false
		r.include.Start = s.here()
		if !s.bool(&r.IncludeUsage) {
			return false
		}
		r.include.End = s.i
	}
	r.options.End = s.i
	return s.why == ""
}
