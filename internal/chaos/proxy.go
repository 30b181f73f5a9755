package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"

	"github.com/spillway-llm/spillway/router/extproc/extproctest"
)

// proxied asks an engine as a client behind a proxy does: the picker says where,
// the proxy tries its destinations in order until one sends headers, and shows the
// picker the answer as it passes.
func (c *crowd) proxied(rng *rand.Rand, r *record) error {
	r.Proxied = true
	streamed := rng.IntN(6) > 0
	body := chat(rng, streamed)
	proxy, err := c.proxy(c.door.Load())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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
	if picked.Status != 0 {
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

// proxy is the one connection that the proxy has to a router.
func (c *crowd) proxy(to *router) (*extproctest.Proxy, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.proxies[to]; p != nil {
		return p, nil
	}
	p, err := extproctest.Dial(to.picker, nil)
	if err == nil {
		c.proxies[to] = p
	}
	return p, err
}
