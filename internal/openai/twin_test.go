package openai_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/spillway-llm/spillway/internal/openai"
)

// facts is what the dumb twin of Scan reads, by decoding everything.
type facts struct {
	Model, Salt          string
	Stream, IncludeUsage bool
	MaxTokens, N         int
	Priority             int
	HasPriority          bool
	Images, TokenIDs     int
	Texts                []string // decoded roles and texts, sorted
	Tools                string   // raw
	Hints                string   // raw
}

var errTwin = errors.New("the twin refuses")

func depth(body []byte) int {
	deepest, d, inString := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			d++
			deepest = max(deepest, d)
		case c == '}' || c == ']':
			d--
		}
	}
	return deepest
}

func read(body []byte, api openai.API) (facts, error) {
	f := facts{MaxTokens: -1, N: 1}
	if !json.Valid(body) || depth(body) > openai.MaxDepth {
		return f, errTwin
	}
	var top map[string]json.RawMessage
	if json.Unmarshal(body, &top) != nil || top == nil {
		return f, errTwin
	}
	for key, raw := range top {
		if string(raw) == "null" {
			delete(top, key)
		}
	}
	if !wellTyped(body, api) {
		return f, errTwin
	}
	var bad bool
	typed := func(key string, into any) bool {
		raw, ok := top[key]
		if ok && json.Unmarshal(raw, into) != nil {
			bad = true
		}
		return ok
	}
	whole := func(key string, into *int) bool {
		var v float64
		if !typed(key, &v) {
			return false
		}
		if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
			bad = true
			return false
		}
		*into = int(v)
		return true
	}
	hasModel := typed("model", &f.Model)
	typed("cache_salt", &f.Salt)
	typed("stream", &f.Stream)
	if raw, ok := top["stream_options"]; ok {
		var options map[string]json.RawMessage
		if json.Unmarshal(raw, &options) != nil {
			bad = true
		}
		if v, ok := options["include_usage"]; ok && json.Unmarshal(v, &f.IncludeUsage) != nil {
			bad = true
		}
	}
	f.Hints = string(top["spillway"])
	whole("n", &f.N)
	f.HasPriority = whole("priority", &f.Priority)
	if api == openai.Responses {
		whole("max_output_tokens", &f.MaxTokens)
	} else {
		other := -1
		whole("max_tokens", &f.MaxTokens)
		if whole("max_completion_tokens", &other) && other >= 0 {
			f.MaxTokens = other
		}
	}
	f.MaxTokens = max(f.MaxTokens, -1)
	if bad || !hasModel || f.N < 1 || f.N > 128 {
		return f, errTwin
	}
	switch api {
	case openai.Chat:
		f.messages(top["messages"])
		f.Tools = nonEmpty(top["tools"])
	case openai.Responses:
		f.messages(top["input"])
		f.Tools = nonEmpty(top["tools"])
	case openai.Completions:
		f.texts(top["prompt"])
	case openai.Embeddings:
		f.texts(top["input"])
	}
	slices.Sort(f.Texts)
	return f, nil
}

// members calls visit with every member of an object, repeated keys too.
func members(object []byte, visit func(key string, value json.RawMessage)) {
	d := json.NewDecoder(bytes.NewReader(object))
	for _, _ = d.Token(); d.More(); {
		key, _ := d.Token()
		var value json.RawMessage
		_ = d.Decode(&value)
		visit(key.(string), value)
	}
}

// wellTyped checks the values of all keys, also of those that a later key of
// the same name overrides.
func wellTyped(body []byte, api openai.API) bool {
	ok := true
	as := func(raw json.RawMessage, into any) { ok = ok && json.Unmarshal(raw, into) == nil }
	number := func(raw json.RawMessage, least float64) {
		v := least
		as(raw, &v)
		ok = ok && v == math.Trunc(v) && math.Abs(v) <= 1<<53 && v >= least
	}
	members(body, func(key string, raw json.RawMessage) {
		switch {
		case string(raw) == "null":
			ok = ok && !(key == "messages" && api == openai.Chat)
		case key == "model" || key == "cache_salt":
			as(raw, new(string))
		case key == "stream":
			as(raw, new(bool))
		case key == "n":
			number(raw, 1)
		case key == "priority":
			number(raw, math.Inf(-1))
		case key == "max_output_tokens" && api == openai.Responses,
			(key == "max_tokens" || key == "max_completion_tokens") && api != openai.Responses:
			number(raw, math.Inf(-1))
		case key == "spillway":
			as(raw, new(map[string]any))
		case key == "stream_options":
			as(raw, new(map[string]any))
			if ok {
				members(raw, func(key string, raw json.RawMessage) {
					if key == "include_usage" {
						as(raw, new(bool))
					}
				})
			}
		case key == "messages" && api == openai.Chat:
			ok = ok && raw[0] == '['
		}
	})
	return ok
}

func nonEmpty(raw json.RawMessage) string {
	if len(raw) == 0 || strings.ContainsRune(`[{"`, rune(raw[0])) && len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0 && raw[0] != '"' {
		return ""
	}
	if raw[0] == '"' {
		return string(raw[1 : len(raw)-1])
	}
	return string(raw)
}

func (f *facts) text(raw json.RawMessage) bool {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return false
	}
	if s != "" {
		f.Texts = append(f.Texts, s)
	}
	return true
}

// other adds a value that is text by its place but no string.
func (f *facts) other(raw json.RawMessage) {
	if !f.text(raw) && string(raw) != "null" && nonEmpty(raw) != "" {
		f.Texts = append(f.Texts, string(raw))
	}
}

func (f *facts) texts(raw json.RawMessage) {
	var list []json.RawMessage
	if len(raw) == 0 {
		return
	}
	if raw[0] != '[' {
		f.other(raw)
		return
	}
	_ = json.Unmarshal(raw, &list)
	for _, v := range list {
		switch v[0] {
		case '"':
			f.text(v)
		case '[':
			f.texts(v)
		case '{':
		default:
			f.TokenIDs++
		}
	}
}

func (f *facts) messages(raw json.RawMessage) {
	var list []json.RawMessage
	if len(raw) == 0 {
		return
	}
	if raw[0] != '[' {
		f.other(raw)
		return
	}
	_ = json.Unmarshal(raw, &list)
	for _, v := range list {
		if v[0] != '{' {
			f.text(v)
			continue
		}
		var m map[string]json.RawMessage
		_ = json.Unmarshal(v, &m)
		for _, key := range []string{"role", "tool_calls", "function_call"} {
			if v, ok := m[key]; ok {
				f.other(v)
			}
		}
		for _, key := range []string{"content", "reasoning_content", "reasoning", "refusal", "name", "arguments", "output"} {
			if v, ok := m[key]; ok {
				f.content(v)
			}
		}
	}
}

func (f *facts) content(raw json.RawMessage) {
	if raw[0] != '[' {
		f.other(raw)
		return
	}
	var list []json.RawMessage
	_ = json.Unmarshal(raw, &list)
	for _, v := range list {
		if v[0] != '{' {
			f.text(v)
			continue
		}
		// One part may name its text or its image by several keys; the last
		// counts, so the order of keys matters here.
		var text, image json.RawMessage
		images := 0
		members(v, func(key string, value json.RawMessage) {
			switch key {
			case "text", "refusal":
				text = value
			case "image_url", "image":
				image, images = value, 1
			case "input_audio", "audio_url", "video_url", "file", "file_data", "file_url":
				image, images = value, 0
			}
		})
		if text != nil {
			f.other(text)
		}
		if nonEmpty(image) != "" && string(image) != "null" {
			f.Images += images
		}
	}
}

// scanned brings what Scan found into the twin's form.
func scanned(body []byte, r openai.Request) facts {
	f := facts{
		Model: r.Model, Salt: r.CacheSalt, Stream: r.Stream, IncludeUsage: r.IncludeUsage,
		MaxTokens: r.MaxTokens, N: r.N, Priority: r.Priority, HasPriority: r.HasPriority,
		Images: r.Images, TokenIDs: r.TokenIDs, Hints: string(body[r.Hints.Start:r.Hints.End]),
	}
	for _, s := range r.Prompt {
		raw := string(body[s.Start:s.End])
		switch s.Kind {
		case openai.Tools:
			f.Tools = raw
		case openai.Role, openai.Text, openai.Calls:
			var text string
			if json.Unmarshal([]byte(`"`+raw+`"`), &text) != nil || body[s.Start-1] != '"' {
				text = raw
			}
			f.Texts = append(f.Texts, text)
		}
	}
	slices.Sort(f.Texts)
	return f
}
