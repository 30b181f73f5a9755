package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/router/extproc/extproctest"
)

// crowd sends requests of all kinds.
type crowd struct {
	url   string
	http  *http.Client
	proxy *extproctest.Proxy // that some of them are behind
}

// traffic is what clients did and were told in one round.
type traffic struct {
	Requests int          `json:"requests"`
	Whole    int          `json:"whole"`   // answered to the end
	Left     int          `json:"left"`    // by a client that went away
	Refused  int          `json:"refused"` // nonsense, or a name that nobody serves
	Failed   int          `json:"failed"`  // by an endpoint's fault
	Halved   int          `json:"halved"`  // half an answer, and it looked whole
	told     []feature.ID // decisions that answers named
}

func (t *traffic) add(p traffic) {
	t.Requests += p.Requests
	t.Whole += p.Whole
	t.Left += p.Left
	t.Refused += p.Refused
	t.Failed += p.Failed
	t.Halved += p.Halved
	t.told = append(t.told, p.told...)
}

// behindProxy is of how many clients one is behind a proxy.
const behindProxy = 3

// run lets clients ask one request after the other until ctx ends. Those under
// way then are ended, but not cut off.
func (c *crowd) run(ctx context.Context, clients int, seed uint64) (all traffic) {
	parts := make([]traffic, clients)
	var running sync.WaitGroup
	for i := range parts {
		running.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			ask := c.once
			if i%behindProxy == behindProxy-1 {
				ask = c.proxied
			}
			for ctx.Err() == nil {
				ask(rng, &parts[i])
			}
		})
	}
	running.Wait()
	for _, p := range parts {
		all.add(p)
	}
	return all
}

// patience is how long a client waits at most; the router's own bounds are
// shorter.
const patience = 30 * time.Second

// once sends one request, whichever.
func (c *crowd) once(rng *rand.Rand, t *traffic) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	body, reads := chat(rng, rng.IntN(5) > 0), -1
	switch x := rng.IntN(100); {
	case x < 15: // it leaves before anything came, or soon after
		wait := time.Duration(rng.IntN(30_000)) * time.Microsecond
		timer := time.AfterFunc(wait, cancel)
		defer timer.Stop()
	case x < 30: // it leaves in the middle
		reads = 1 + rng.IntN(8)
	case x < 33:
		body = body[:len(body)-2]
	case x < 36:
		body = bytes.Replace(body, []byte(llm), []byte("none"), 1)
	}
	t.Requests++
	a, err := c.post(ctx, rng, body)
	if err != nil {
		t.count(ctx, 0, err)
		return
	}
	defer a.Body.Close()
	if id, ok := decision(a.Header); ok {
		t.told = append(t.told, id)
	}
	buf := make([]byte, 2048)
	last := ""
	for err == nil && reads != 0 {
		var n int
		n, err = a.Body.Read(buf)
		reads--
		last += string(buf[:n])
		last = last[max(0, len(last)-16):]
	}
	if reads == 0 {
		cancel()
		t.Left++
		return
	}
	if err == io.EOF && a.StatusCode == http.StatusOK && !strings.HasSuffix(last, "}") && !strings.HasSuffix(last, "[DONE]\n\n") {
		t.Halved++
		return
	}
	t.count(ctx, a.StatusCode, err)
}

func (t *traffic) count(ctx context.Context, status int, err error) {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		t.Left++
	case status == http.StatusBadRequest || status == http.StatusNotFound:
		t.Refused++
	case err == io.EOF && status == http.StatusOK:
		t.Whole++
	default:
		t.Failed++
	}
}

func (c *crowd) post(ctx context.Context, rng *rand.Rand, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Request-Id", fmt.Sprint("request ", rng.IntN(40))) // clients repeat theirs
	return c.http.Do(r)
}

// decision reads the id of a decision from an answer's headers.
func decision(h http.Header) (id feature.ID, ok bool) {
	text, _, _ := strings.Cut(h.Get("X-Spillway-Decision"), ";")
	id, err := feature.ParseID(text)
	return id, err == nil
}

// chat is a request that shares its beginning with some others.
func chat(rng *rand.Rand, stream bool) []byte {
	system := strings.Repeat(fmt.Sprintf("rule %d. ", rng.IntN(30)), 20+rng.IntN(3)*100)
	user := strings.Repeat(fmt.Sprintf("%x ", rng.Uint32()), 1+rng.IntN(200))
	return fmt.Appendf(nil, `{"model":%q,"stream":%v,"max_tokens":%d,"ignore_eos":true,"messages":[{"role":"system","content":"%s"},{"role":"user","content":"%s"}]}`,
		llm, stream, 2+rng.IntN(40), system, user)
}
