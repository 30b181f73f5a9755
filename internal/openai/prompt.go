package openai

// Span is a stretch [Start, End) of the body that is part of the prompt. What
// lies in it is as the client wrote it, escapes and all: the same client writes
// the same prefix the same way, so spans can be hashed where they stand.
type Span struct {
	Start, End int
	Kind       Kind
}

// Kind says what a span holds.
type Kind uint8

// The kinds of span. All but Media and Tokens count as prompt text.
const (
	// Tools is the whole JSON value of `tools`.
	Tools Kind = iota + 1
	// System is top-level system text: `instructions` of the Responses API, or
	// `system`.
	System
	// Role is a message's role.
	Role
	// Text is the inside of one string: content, a name, reasoning, arguments.
	Text
	// Calls is the whole JSON value of a message's tool calls.
	Calls
	// Media is an image, a sound or a file: its whole JSON value, base64 data
	// or URL. It tells prompts apart, but its length says nothing about tokens.
	Media
	// Tokens is a whole JSON array of token ids.
	Tokens
)

// section collects the spans of one scan. The first two slots of the storage
// are kept for tools and system text, which come first in the template however
// late they come in the body; the messages follow from slot 2 on.
type section struct {
	voided bool // some message span was overridden by a repeated key
	images int
}

const (
	toolsSlot = iota
	systemSlot
	messagesSlot
)

func (t *section) begin(r *Request) {
	r.spans = append(r.spans[:0], Span{}, Span{})
}

// finish arranges the spans as Prompt and adds up what they hold.
func (t *section) finish(r *Request) {
	all := r.spans
	if t.voided {
		kept := all[:messagesSlot]
		for _, s := range all[messagesSlot:] {
			if s.Kind != 0 {
				kept = append(kept, s)
			}
		}
		all = kept
	}
	switch {
	case all[systemSlot].Kind == 0 && all[toolsSlot].Kind == 0:
		all = all[messagesSlot:]
	case all[systemSlot].Kind == 0:
		all[systemSlot] = all[toolsSlot]
		all = all[systemSlot:]
	case all[toolsSlot].Kind == 0:
		all = all[systemSlot:]
	}
	for _, s := range all {
		if s.Kind != Media && s.Kind != Tokens {
			r.PromptBytes += s.End - s.Start
		}
	}
	r.Prompt = all
	r.TokenIDs, r.Images = r.tokenIDs, t.images
}

// prompt reads the value of a top-level key that may be part of the prompt.
func (s *scanner) prompt() bool {
	switch key := string(s.key); {
	case s.api == Chat && key == "messages", s.api == Responses && key == "input":
		s.clear()
		if key == "messages" && s.space() != '[' {
			return s.fail("must be an array of messages")
		}
		return s.messages()
	case s.api == Completions && key == "prompt", s.api == Embeddings && key == "input":
		s.clear()
		return s.texts()
	case (s.api == Chat || s.api == Responses) && key == "tools":
		return s.whole(toolsSlot, Tools)
	case s.api == Chat && key == "system", s.api == Responses && key == "instructions":
		return s.whole(systemSlot, System)
	}
	return s.skip()
}

// clear forgets the messages of an earlier key of the same name.
func (s *scanner) clear() {
	s.r.spans = s.r.spans[:messagesSlot]
	s.r.tokenIDs = 0
	s.turns = section{}
}

// whole reads any value into a slot, without the quotes of a string. A null or
// an empty value is no prompt.
func (s *scanner) whole(slot int, kind Kind) bool {
	span, ok := s.value()
	if span.End > span.Start {
		span.Kind = kind
	}
	s.r.spans[slot] = span
	return ok
}

// value reads any value and returns its bytes: of a string the inside, of null
// and of empty arrays and objects nothing.
func (s *scanner) value() (Span, bool) {
	start := s.here()
	if s.null() {
		return Span{}, true
	}
	b := s.space()
	if !s.skip() {
		return Span{}, false
	}
	end := s.i
	switch b {
	case '"':
		start, end = start+1, end-1
	case '[', '{':
		inside := cursor{b: s.b[:end], i: start + 1}
		inside.space()
		if inside.i == end-1 {
			return Span{}, true
		}
	}
	return Span{Start: start, End: end}, true
}

func (s *scanner) add(span Span, kind Kind) {
	if span.End > span.Start {
		span.Kind = kind
		s.r.spans = append(s.r.spans, span)
	}
}

func (s *scanner) addValue(kind Kind) bool {
	span, ok := s.value()
	s.add(span, kind)
	return ok
}

// texts reads a prompt: a string, an array of strings, or token ids as one
// array or an array of arrays.
func (s *scanner) texts() bool {
	if s.space() != '[' {
		return s.addValue(Text)
	}
	start, ids := s.here(), 0
	for a := s.array(); a.next(&s.cursor); {
		switch s.space() {
		case '[':
			if !s.texts() {
				return false
			}
		case '{':
			if !s.skip() {
				return false
			}
		case '"':
			if !s.addValue(Text) {
				return false
			}
		default:
			if !s.skip() {
				return false
			}
			ids++
		}
	}
	if ids > 0 {
		s.add(Span{Start: start, End: s.i}, Tokens)
		s.r.tokenIDs += ids
	}
	return s.why == ""
}

// messages reads an array of messages or items, or a lone string.
func (s *scanner) messages() bool {
	if s.space() != '[' {
		return s.addValue(Text)
	}
	for a := s.array(); a.next(&s.cursor); {
		var ok bool
		switch s.space() {
		case '{':
			ok = s.message()
		case '"':
			ok = s.addValue(Text)
		default:
			ok = s.skip()
		}
		if !ok {
			return false
		}
	}
	return s.why == ""
}

// The keys of a message or item that are part of the prompt.
const (
	keyContent = iota
	keyReasoningContent
	keyReasoning
	keyRefusal
	keyToolCalls
	keyFunctionCall
	keyName
	keyArguments
	keyOutput
	messageKeys
)

func messageKey(key []byte) (int, Kind) {
	switch string(key) {
	case "content":
		return keyContent, Text
	case "reasoning_content":
		return keyReasoningContent, Text
	case "reasoning":
		return keyReasoning, Text
	case "refusal":
		return keyRefusal, Text
	case "tool_calls":
		return keyToolCalls, Calls
	case "function_call":
		return keyFunctionCall, Calls
	case "name":
		return keyName, Text
	case "arguments":
		return keyArguments, Text
	case "output":
		return keyOutput, Text
	}
	return -1, 0
}

// message reads one message. Its role comes first in Prompt wherever it comes
// in the object; the rest keeps its order.
func (s *scanner) message() bool {
	r := s.r
	role := len(r.spans)
	r.spans = append(r.spans, Span{})
	var seen [messageKeys]part
	for o := s.object(); o.next(&s.cursor); {
		if string(o.key) == "role" {
			span, ok := s.value()
			if !ok {
				return false
			}
			if span.End > span.Start {
				span.Kind = Role
			}
			r.spans[role] = span
			continue
		}
		k, kind := messageKey(o.key)
		if k < 0 {
			if !s.skip() {
				return false
			}
			continue
		}
		s.void(seen[k])
		seen[k] = part{from: len(r.spans)}
		images := s.turns.images
		var ok bool
		if s.space() == '[' && kind == Text {
			ok = s.parts()
		} else {
			ok = s.addValue(kind)
		}
		if !ok {
			return false
		}
		seen[k].to, seen[k].images = len(r.spans), s.turns.images-images
	}
	if r.spans[role].Kind == 0 {
		s.turns.voided = true
	}
	return s.why == ""
}

// part is what one key of a message, or one part of its content, contributed.
type part struct{ from, to, images int }

// void takes back what an earlier key of the same name contributed.
func (s *scanner) void(p part) {
	for i := p.from; i < p.to; i++ {
		s.r.spans[i] = Span{}
		s.turns.voided = true
	}
	s.turns.images -= p.images
}

// parts reads an array of content parts. What a part is follows from its keys,
// for its type may come after them.
func (s *scanner) parts() bool {
	for a := s.array(); a.next(&s.cursor); {
		var ok bool
		switch s.space() {
		case '{':
			ok = s.part()
		case '"':
			ok = s.addValue(Text)
		default:
			ok = s.skip()
		}
		if !ok {
			return false
		}
	}
	return s.why == ""
}

func (s *scanner) part() bool {
	var text, media part
	for o := s.object(); o.next(&s.cursor); {
		kind, images, seen := Media, 0, &media
		switch string(o.key) {
		case "text", "refusal":
			kind, seen = Text, &text
		case "image_url", "image":
			images = 1
		case "input_audio", "audio_url", "video_url", "file", "file_data", "file_url":
		default:
			if !s.skip() {
				return false
			}
			continue
		}
		s.void(*seen)
		seen.from = len(s.r.spans)
		if !s.addValue(kind) {
			return false
		}
		seen.to = len(s.r.spans)
		if seen.to == seen.from {
			images = 0
		}
		seen.images = images
		s.turns.images += images
	}
	return s.why == ""
}
