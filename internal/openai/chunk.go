package openai

// Usage is what an engine reports about one request. -1: not reported.
type Usage struct {
	PromptTokens     int
	CachedTokens     int // of the prompt, found in the engine's prefix cache
	CompletionTokens int // of all completions together
}

// chunk is what one streamed chunk, or one whole response, says.
type chunk struct {
	generated bool   // it carries at least one generated token
	choices   int    // number of choices; -1: it has no choices
	finish    []byte // raw finish reason, nil if none
	usage     Usage
	hasUsage  bool
	ended     bool   // it closes a Responses stream
	failed    bool   // it is or holds an error
	message   []byte // raw error message, nil if none
}

// parse reads one JSON object of a stream and reports whether it is one.
func (k *chunk) parse(data []byte) bool {
	*k = chunk{choices: -1}
	c := cursor{b: data}
	for o := c.object(); o.next(&c); {
		if !k.member(&c, o.key) {
			return false
		}
	}
	return c.why == "" && c.end()
}

func (k *chunk) member(c *cursor, key []byte) bool {
	switch string(key) {
	case "choices":
		if c.space() == '[' {
			return k.readChoices(c)
		}
	case "usage":
		return k.readUsage(c)
	case "error":
		return k.readError(c)
	case "delta": // Responses: the text itself
		if c.space() == '"' {
			return k.generation(c)
		}
	case "type":
		if c.space() == '"' {
			raw, _, ok := c.text()
			k.event(raw)
			return ok
		}
	case "object": // older vLLM: {"object":"error","message":...}
		if c.space() == '"' {
			raw, _, ok := c.text()
			k.failed = k.failed || string(raw) == "error"
			return ok
		}
	case "message":
		if c.space() == '"' {
			raw, _, ok := c.text()
			k.message = raw
			return ok
		}
	case "response": // Responses: the response object in its life-cycle events
		if c.space() == '{' {
			for o := c.object(); o.next(c); {
				var ok bool
				switch string(o.key) {
				case "usage":
					ok = k.readUsage(c)
				case "error":
					ok = k.readError(c)
				default:
					ok = c.skip()
				}
				if !ok {
					return false
				}
			}
			return c.why == ""
		}
	}
	return c.skip()
}

// event notes the type of a Responses event.
func (k *chunk) event(name []byte) {
	switch string(name) {
	case "response.completed", "response.incomplete":
		k.ended = true
	case "response.failed":
		k.ended, k.failed = true, true
	case "error":
		k.failed = true
	}
}

func (k *chunk) readChoices(c *cursor) bool {
	k.choices = 0
	for a := c.array(); a.next(c); {
		k.choices++
		if c.space() != '{' {
			if !c.skip() {
				return false
			}
			continue
		}
		for o := c.object(); o.next(c); {
			var ok bool
			switch {
			case string(o.key) == "delta" && c.space() == '{':
				ok = k.readDelta(c)
			case string(o.key) == "text" && c.space() == '"':
				ok = k.generation(c)
			case string(o.key) == "finish_reason" && c.space() == '"':
				k.finish, _, ok = c.text()
			default:
				ok = c.skip()
			}
			if !ok {
				return false
			}
		}
	}
	return c.why == ""
}

// readDelta looks for generated tokens on any channel. The role, which the
// first chunk carries alone, is none.
func (k *chunk) readDelta(c *cursor) bool {
	for o := c.object(); o.next(c); {
		var ok bool
		switch string(o.key) {
		case "content", "reasoning_content", "reasoning", "reasoning_details", "thinking",
			"tool_calls", "function_call", "refusal", "audio":
			ok = k.generation(c)
		default:
			ok = c.skip()
		}
		if !ok {
			return false
		}
	}
	return c.why == ""
}

// generation reads a value and notes whether there is generated text anywhere
// in it: a string that is not empty and is no mere label of what surrounds it.
func (k *chunk) generation(c *cursor) bool {
	switch c.space() {
	case '"':
		raw, _, ok := c.text()
		k.generated = k.generated || len(raw) > 0
		return ok
	case '[':
		for a := c.array(); a.next(c); {
			if !k.generation(c) {
				return false
			}
		}
		return c.why == ""
	case '{':
		for o := c.object(); o.next(c); {
			var ok bool
			switch string(o.key) {
			case "id", "type", "format", "index":
				ok = c.skip()
			default:
				ok = k.generation(c)
			}
			if !ok {
				return false
			}
		}
		return c.why == ""
	}
	return c.skip()
}

// readUsage understands both vocabularies: prompt and completion tokens, and
// the input and output tokens of the Responses API.
func (k *chunk) readUsage(c *cursor) bool {
	if c.space() != '{' {
		return c.skip()
	}
	u := Usage{-1, -1, -1}
	for o := c.object(); o.next(c); {
		var ok bool
		switch string(o.key) {
		case "prompt_tokens", "input_tokens":
			ok = readCount(c, &u.PromptTokens)
		case "completion_tokens", "output_tokens":
			ok = readCount(c, &u.CompletionTokens)
		case "prompt_tokens_details", "input_tokens_details":
			ok = readCached(c, &u.CachedTokens)
		default:
			ok = c.skip()
		}
		if !ok {
			return false
		}
	}
	if u.PromptTokens >= 0 || u.CompletionTokens >= 0 {
		k.usage, k.hasUsage = u, true
	}
	return c.why == ""
}

func readCached(c *cursor, cached *int) bool {
	if c.space() != '{' {
		return c.skip()
	}
	for o := c.object(); o.next(c); {
		if string(o.key) == "cached_tokens" {
			if !readCount(c, cached) {
				return false
			}
		} else if !c.skip() {
			return false
		}
	}
	return c.why == ""
}

// readCount reads a number of tokens; anything else leaves n unknown.
func readCount(c *cursor, n *int) bool {
	*n = -1
	if b := c.space(); b < '0' || b > '9' {
		return c.skip()
	}
	raw, ok := c.number()
	if v, whole := integer(raw); ok && whole {
		*n = v
	}
	return ok
}

// readError reads the value of an error key: null is no error, and a message
// is looked for in anything else.
func (k *chunk) readError(c *cursor) bool {
	switch c.space() {
	case 'n':
		return c.literal("null")
	case '"':
		raw, _, ok := c.text()
		k.failed, k.message = true, raw
		return ok
	case '{':
		k.failed = true
		for o := c.object(); o.next(c); {
			if string(o.key) == "message" && c.space() == '"' {
				raw, _, ok := c.text()
				if k.message = raw; !ok {
					return false
				}
			} else if !c.skip() {
				return false
			}
		}
		return c.why == ""
	}
	k.failed = true
	return c.skip()
}
