package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spillway-llm/spillway/internal/openai"
)

// reply is one answer as it came.
type reply struct {
	dispatched time.Time
	prompt     int // tokens
	cached     int // of those
	output     int // tokens
	marks      []mark
}

// mark is when so many events with generated tokens had come.
type mark struct {
	at     time.Time
	events int
}

// perEvent is how many tokens an event carries on average.
func (r *reply) perEvent() float64 {
	return float64(r.output) / float64(r.marks[len(r.marks)-1].events)
}

// message is one turn of a chat.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// ask is the body of a request.
type ask struct {
	Model     string    `json:"model"`
	Prompt    string    `json:"prompt,omitempty"`
	Messages  []message `json:"messages,omitempty"`
	MaxTokens int       `json:"max_tokens"`
	IgnoreEOS bool      `json:"ignore_eos"` // vLLM, SGLang and trtllm-serve know it
	Stream    bool      `json:"stream"`
	Options   struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// send makes one request and reads its answer to the end.
func (e *Endpoint) send(ctx context.Context, text string, output int) (reply, error) {
	a := ask{Model: e.LLM, MaxTokens: output, IgnoreEOS: true, Stream: true}
	a.Options.Usage = true
	if e.config.API == openai.Chat {
		a.Messages = []message{{"user", text}}
	} else {
		a.Prompt = text
	}
	body, err := json.Marshal(a)
	if err != nil {
		return reply{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.config.Timeout)
	defer cancel()
	path := e.config.API.Path()
	what := "POST " + path
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.base+path, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	e.authorize(req)
	r := reply{dispatched: time.Now()}
	resp, err := e.config.Client.Do(req)
	if err != nil {
		return r, failure(what, err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("X-Spillway-Decision") != "" {
		return r, errors.New("a Spillway router answers: want the URL of one engine behind it")
	}
	var m openai.Meter
	if err := r.read(resp.Body, &m); err != nil {
		return r, failure(what, err)
	}
	said, failed := m.Failure()
	switch {
	case resp.StatusCode != http.StatusOK:
		return r, refusal(what, resp.StatusCode, said)
	case failed:
		return r, fmt.Errorf("%s: the answer broke off: %s", what, said)
	case !m.Streamed() || m.Events() == 0:
		return r, fmt.Errorf("%s: %w: the answer is no stream of generated tokens", what, ErrAPI)
	case !m.Done():
		return r, fmt.Errorf("%s: the answer was cut off after %d events", what, m.Events())
	}
	usage, ok := m.Usage()
	if !ok || usage.PromptTokens <= 0 || usage.CompletionTokens <= 0 {
		return r, fmt.Errorf("%s: %w", what, ErrUsage)
	}
	r.prompt, r.cached, r.output = usage.PromptTokens, max(0, usage.CachedTokens), usage.CompletionTokens
	return r, nil
}

// read notes when generated tokens came.
func (r *reply) read(body io.Reader, m *openai.Meter) error {
	buf := make([]byte, 32<<10)
	for total := 0; ; {
		n, err := body.Read(buf)
		now := time.Now()
		m.Write(buf[:n], now)
		if err != nil {
			m.Finish(now)
		}
		if events := m.Events(); len(r.marks) == 0 && events > 0 || len(r.marks) > 0 && events > r.marks[len(r.marks)-1].events {
			r.marks = append(r.marks, mark{now, events})
		}
		if total += n; total > maxAnswer {
			return fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
