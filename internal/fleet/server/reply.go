package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

type usage struct {
	PromptTokens     int            `json:"prompt_tokens"`
	TotalTokens      int            `json:"total_tokens"`
	CompletionTokens int            `json:"completion_tokens"`
	Details          map[string]int `json:"prompt_tokens_details"`
}

// reply writes the bodies of one answer.
type reply struct {
	*work
	id      string
	created int64
}

func newReply(w *work, id uint64, started time.Time) *reply {
	kind := "cmpl"
	if w.chat {
		kind = "chatcmpl"
	}
	return &reply{work: w, id: fmt.Sprintf("%s-%x-%x", kind, started.UnixNano(), id), created: time.Now().Unix()}
}

func (r *reply) object(chunk bool) string {
	switch {
	case !r.chat:
		return "text_completion"
	case chunk:
		return "chat.completion.chunk"
	default:
		return "chat.completion"
	}
}

func (r *reply) usage(cached int) *usage {
	return &usage{r.tokens, r.tokens + r.output, r.output, map[string]int{"cached_tokens": cached}}
}

func (r *reply) finishReason() string {
	if r.capped() {
		return "length"
	}
	return "stop"
}

// head is a JSON object up to and including the name of its choices.
func (r *reply) head(chunk bool) []byte {
	model, err := json.Marshal(r.Model)
	if err != nil {
		panic(err) // a string always encodes
	}
	return fmt.Appendf(nil, `{"id":"%s","object":"%s","created":%d,"model":%s,"choices":`, r.id, r.object(chunk), r.created, model)
}

// whole is the body of an answer that is not streamed.
func (r *reply) whole(cached int) []byte {
	var reasoning, content []byte
	for i := range r.output {
		if i < r.reasoning {
			reasoning = appendToken(reasoning, r.textSeed, i)
		} else {
			content = appendToken(content, r.textSeed, i)
		}
	}
	b := r.head(false)
	switch {
	case !r.chat:
		b = fmt.Appendf(b, `[{"index":0,"text":"%s","logprobs":null,"finish_reason":"%s","stop_reason":null}]`, content, r.finishReason())
	case r.reasoning > 0:
		b = fmt.Appendf(b, `[{"index":0,"message":{"role":"assistant","reasoning_content":"%s","content":"%s"},"logprobs":null,"finish_reason":"%s"}]`, reasoning, content, r.finishReason())
	default:
		b = fmt.Appendf(b, `[{"index":0,"message":{"role":"assistant","content":"%s"},"logprobs":null,"finish_reason":"%s"}]`, content, r.finishReason())
	}
	u, err := json.Marshal(r.usage(cached))
	if err != nil {
		panic(err) // integers always encode
	}
	return fmt.Appendf(b, `,"usage":%s}`, u)
}

// chunks writes the events of a streamed answer. Everything around a token is
// made once.
type chunks struct {
	*reply
	head          string
	before, after string // around a token of content
	beforeThought string // before a token of reasoning
	finished      string // after the last token
}

func (r *reply) chunks() *chunks {
	c := &chunks{reply: r, head: "data: " + string(r.head(true))}
	end := `"logprobs":null,"finish_reason":`
	if r.chat {
		c.before = c.head + `[{"index":0,"delta":{"content":"`
		c.beforeThought = c.head + `[{"index":0,"delta":{"reasoning_content":"`
		end = `"},` + end
	} else {
		c.before = c.head + `[{"index":0,"text":"`
		end = `",` + end
	}
	c.after = end + "null}]}\n\n"
	c.finished = end + `"` + r.finishReason() + "\"}]}\n\n"
	return c
}

// open appends what comes before the first token: the role of a chat.
func (c *chunks) open(dst []byte) []byte {
	if !c.chat {
		return dst
	}
	dst = append(dst, c.head...)
	return append(dst, `[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`+"\n\n"...)
}

// close appends what follows the last token.
func (c *chunks) close(dst []byte, cached int) []byte {
	if c.StreamOptions.IncludeUsage {
		u, err := json.Marshal(c.usage(cached))
		if err != nil {
			panic(err) // integers always encode
		}
		dst = append(dst, c.head...)
		dst = fmt.Appendf(dst, "[],\"usage\":%s}\n\n", u)
	}
	return append(dst, "data: [DONE]\n\n"...)
}

// token appends the event of token i.
func (c *chunks) token(dst []byte, i int) []byte {
	if i < c.reasoning {
		dst = append(dst, c.beforeThought...)
	} else {
		dst = append(dst, c.before...)
	}
	dst = appendToken(dst, c.textSeed, i)
	if i == c.output-1 {
		return append(dst, c.finished...)
	}
	return append(dst, c.after...)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body) // the client is gone if this fails
}

// writeError answers in OpenAI's shape with vLLM's error types.
func writeError(w http.ResponseWriter, status int, message string) {
	kind := "BadRequestError"
	switch {
	case status == http.StatusNotFound:
		kind = "NotFoundError"
	case status >= 500:
		kind = "InternalServerError"
	}
	type body struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    int     `json:"code"`
	}
	writeJSON(w, status, map[string]body{"error": {message, kind, nil, status}})
}
