package crowd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/spillway-llm/spillway/router/extproc/extproctest"
)

// direct asks a router.
func (c *Crowd) direct(rng *rand.Rand, r *Record) error {
	body, streamed := c.chat(rng)
	res, err := c.post(c.config.Door().Front, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	r.Decision, _, r.Picked = strings.Cut(res.Header.Get("X-Spillway-Decision"), ";")
	r.Policy, r.Endpoint = res.Header.Get("X-Spillway-Policy"), res.Header.Get("X-Spillway-Endpoint")
	heard := listener{begun: func() { c.begun(r) }}
	if _, err := io.Copy(&heard, res.Body); err != nil {
		return err
	}
	return heard.judge(res.StatusCode, streamed)
}

// post sends a request, with Once in a body that can't be read again.
func (c *Crowd) post(address string, body []byte) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodPost, "http://"+address+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if c.config.Once {
		req.GetBody = nil
	}
	req.Header.Set("Content-Type", "application/json")
	return c.client.Do(req)
}

// proxied asks an engine as a client behind a proxy does: the picker says where,
// the proxy tries its destinations in order until one sends headers, and shows the
// picker the answer as it passes.
func (c *Crowd) proxied(rng *rand.Rand, r *Record) error {
	r.Proxied = true
	body, streamed := c.chat(rng)
	proxy, err := c.proxy(c.config.Door().Picker)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.config.Patience)
	defer cancel()
	s, err := proxy.Open(ctx)
	if err != nil {
		return fmt.Errorf("ask the picker: %w", err)
	}
	defer s.Abort() // does nothing after a proper end
	picked, err := s.Pick(extproctest.Post("/v1/chat/completions", body))
	if err != nil {
		return fmt.Errorf("ask the picker: %w", err)
	}
	if picked.Status != 0 || len(picked.Destinations) == 0 {
		return fmt.Errorf("the picker refuses with %d: %s", picked.Status, picked.Reply)
	}
	r.Picked = true
	var res *http.Response
	for _, destination := range picked.Destinations {
		r.Endpoint = destination
		if res, err = c.post(destination, picked.Body); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	defer res.Body.Close()
	c.begun(r) // with its headers, which a proxy can't take back
	heard, err := pass(s, res, r.Endpoint)
	if err != nil {
		return err
	}
	return heard.judge(res.StatusCode, streamed)
}

// proxy is the one connection that the proxy has to a picker.
func (c *Crowd) proxy(picker string) (*extproctest.Proxy, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.proxies[picker]; p != nil {
		return p, nil
	}
	p, err := extproctest.Dial(picker, nil)
	if err == nil {
		c.proxies[picker] = p
	}
	return p, err
}

// pass passes an endpoint's answer through the picker.
func pass(s *extproctest.Stream, res *http.Response, endpoint string) (heard listener, err error) {
	opening := extproctest.Response{Status: res.StatusCode, Served: endpoint, Body: []byte{},
		Headers: [][2]string{{"content-type", res.Header.Get("Content-Type")}}}
	if err := show(s, opening.Messages()[0]); err != nil {
		return heard, err
	}
	buf := make([]byte, 4096)
	for ended := false; !ended; {
		n, err := res.Body.Read(buf)
		ended = errors.Is(err, io.EOF)
		if err != nil && !ended {
			return heard, err // the stream is aborted, as proxies do
		}
		_, _ = heard.Write(buf[:n])
		if n > 0 || ended {
			if err := show(s, extproctest.Chunk(buf[:n], ended)); err != nil {
				return heard, err
			}
		}
	}
	if err := s.End(); err != nil {
		return heard, fmt.Errorf("end the picker's stream: %w", err)
	}
	return heard, nil
}

// show shows the picker one message and takes its answer.
func show(s *extproctest.Stream, m *extproctest.Message) error {
	err := s.Send(m)
	if err == nil || errors.Is(err, io.EOF) {
		_, err = s.Recv()
	}
	if err != nil {
		return fmt.Errorf("show the picker an answer: %w", err)
	}
	return nil
}

// chat is a request that shares its beginning with some others, and whether its
// answer is streamed.
func (c *Crowd) chat(rng *rand.Rand) (body []byte, streamed bool) {
	streamed = c.config.Whole == 0 || rng.IntN(c.config.Whole) > 0
	system := strings.Repeat(fmt.Sprintf("rule %d. ", rng.IntN(16)), c.config.Shared*(1+3*rng.IntN(3)))
	user := strings.Repeat(fmt.Sprintf("%08x ", rng.Uint32()), 10+rng.IntN(c.config.Own))
	return fmt.Appendf(nil, `{"model":%q,"stream":%v,"max_tokens":%d,"ignore_eos":true,"messages":[{"role":"system","content":"%s"},{"role":"user","content":"%s"}]}`,
		c.config.LLM, streamed, 8+rng.IntN(56), system, user), streamed
}
