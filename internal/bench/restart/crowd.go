package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spillway-llm/spillway/router/extproc/extproctest"
)

// How many clients there are of each front door, how long they think between two
// requests, and how long they wait for one.
const (
	direct   = 12
	proxied  = 4
	thinking = 100 * time.Millisecond // on average
	patience = 30 * time.Second
)

// record is one request as its client saw it.
type record struct {
	proxied  bool
	sent     time.Time
	ttft     time.Duration // to the first byte of the answer's body, or behind a proxy of its headers
	decision string        // its id, where the client is told
	picked   bool          // a decision was made for it
	fault    error
}

// crowd is the clients of one address, whoever listens there.
type crowd struct {
	front  string
	proxy  *extproctest.Proxy
	client *http.Client

	mu      sync.Mutex
	records []record
}

// run lets all clients ask until ctx ends; requests under way go on to their end.
func (c *crowd) run(ctx context.Context, seed uint64) {
	var running sync.WaitGroup
	for i := range direct + proxied {
		running.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for {
				think := time.NewTimer(time.Duration(rng.ExpFloat64() * float64(thinking)))
				select {
				case <-ctx.Done():
					think.Stop()
					return
				case <-think.C:
				}
				r := record{sent: time.Now(), proxied: i >= direct}
				if r.proxied {
					r.fault = c.throughProxy(rng, &r)
				} else {
					r.fault = c.ask(rng, &r)
				}
				c.mu.Lock()
				c.records = append(c.records, r)
				c.mu.Unlock()
			}
		})
	}
	running.Wait()
}

// post sends a request whose body can't be read again: net/http then tries nothing
// twice.
func (c *crowd) post(ctx context.Context, address string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/chat/completions", io.NopCloser(bytes.NewReader(body)))
	if err != nil {
		return nil, err
	}
	req.ContentLength = int64(len(body))
	req.Header.Set("Content-Type", "application/json")
	return c.client.Do(req)
}

func (c *crowd) ask(rng *rand.Rand, r *record) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	res, err := c.post(ctx, c.front, chat(rng))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	r.decision, _, r.picked = strings.Cut(res.Header.Get("X-Spillway-Decision"), ";")
	var text []byte
	for buffer := make([]byte, 4<<10); err == nil; {
		var n int
		if n, err = res.Body.Read(buffer); n > 0 && len(text) == 0 {
			r.ttft = time.Since(r.sent)
		}
		text = append(text, buffer[:n]...)
	}
	if err != io.EOF {
		return err
	}
	return whole(res.StatusCode, text)
}

// throughProxy plays a gateway that asks the picker and then an endpoint.
func (c *crowd) throughProxy(rng *rand.Rand, r *record) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := c.proxy.Open(ctx)
	if err != nil {
		return fmt.Errorf("ask the picker: %w", err)
	}
	defer s.Abort() // does nothing after a proper end
	picked, err := s.Pick(extproctest.Post("/v1/chat/completions", chat(rng)))
	if err != nil {
		return fmt.Errorf("ask the picker: %w", err)
	}
	if picked.Status != 0 || len(picked.Destinations) == 0 {
		return fmt.Errorf("the picker refuses with %d: %s", picked.Status, picked.Reply)
	}
	r.picked = true
	res, err := c.post(ctx, picked.Destinations[0], picked.Body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	r.ttft = time.Since(r.sent)
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if _, err := s.Answer(extproctest.Response{Status: res.StatusCode, Served: picked.Destinations[0], Body: text,
		Headers: [][2]string{{"content-type", res.Header.Get("Content-Type")}}}); err != nil {
		return fmt.Errorf("pass the answer through the picker: %w", err)
	}
	if err := s.End(); err != nil {
		return fmt.Errorf("end at the picker: %w", err)
	}
	return whole(res.StatusCode, text)
}

// whole says what is wrong with an answer that came to its end.
func whole(status int, text []byte) error {
	if status != http.StatusOK {
		return fmt.Errorf("status %d: %.200s", status, text)
	}
	if bytes.Contains(text, []byte(`data: {"error"`)) || !bytes.HasSuffix(text, []byte("[DONE]\n\n")) {
		return fmt.Errorf("half an answer looks whole: %.200s", text[max(0, len(text)-200):])
	}
	return nil
}

// chat is a request that shares its beginning with some others.
func chat(rng *rand.Rand) []byte {
	system := strings.Repeat(fmt.Sprintf("rule %d. ", rng.IntN(16)), 50+rng.IntN(3)*150)
	user := strings.Repeat(fmt.Sprintf("%08x ", rng.Uint32()), 10+rng.IntN(100))
	return fmt.Appendf(nil, `{"model":%q,"stream":true,"max_tokens":%d,"ignore_eos":true,"messages":[{"role":"system","content":"%s"},{"role":"user","content":"%s"}]}`,
		llm, 8+rng.IntN(56), system, user)
}
