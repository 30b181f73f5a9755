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
	"sync/atomic"
	"time"

	"github.com/spillway-llm/spillway/router/extproc/extproctest"
)

// How many clients there are of each front door, how long they think between two
// requests, and how long they wait for one.
const (
	direct   = 14
	proxied  = 8
	thinking = 250 * time.Millisecond // on average
	patience = 30 * time.Second
)

// record is one request as its client saw it.
type record struct {
	Proxied  bool
	Sent     time.Time
	First    time.Time // of a byte of the answer's body, or, behind a proxy, of its headers; zero: none came
	End      time.Time
	Picked   bool   // a decision was made for it, as far as its client can tell
	Decision string // its id, where the client is told
	Policy   string // likewise
	Endpoint string // that answered, or where it was tried last
	Fault    string // why it did not get its whole answer; empty: it did
}

// crowd is the clients.
type crowd struct {
	door   atomic.Pointer[router] // that requests go to
	client *http.Client           // of routers, and of engines behind a proxy

	// Every request holds the gate open; who takes it waits until none is under
	// way and lets no new one begin.
	gate sync.RWMutex

	mu      sync.Mutex
	records []record
	streams map[stream]int // answers of which a part has come
	proxies map[*router]*extproctest.Proxy
}

// stream is where an answer comes from, and through which door.
type stream struct {
	endpoint string
	proxied  bool
}

func newCrowd(first *router) *crowd {
	c := &crowd{streams: map[stream]int{}, proxies: map[*router]*extproctest.Proxy{},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: direct + proxied}, Timeout: patience}}
	c.door.Store(first)
	return c
}

// run lets all clients ask until ctx ends. Requests under way then go on to their
// end.
func (c *crowd) run(ctx context.Context, seed uint64) {
	var running sync.WaitGroup
	for i := range direct + proxied {
		running.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			ask := c.direct
			if i >= direct {
				ask = c.proxied
			}
			for {
				think := time.NewTimer(time.Duration(rng.ExpFloat64() * float64(thinking)))
				select {
				case <-ctx.Done():
					think.Stop()
					return
				case <-think.C:
				}
				c.gate.RLock()
				r := record{Sent: time.Now()}
				err := ask(rng, &r)
				c.ended(&r, err)
				c.gate.RUnlock()
			}
		})
	}
	running.Wait()
	for _, p := range c.proxies {
		p.Close()
	}
	c.client.CloseIdleConnections()
}

// begun notes that a part of an answer has come.
func (c *crowd) begun(r *record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.First = time.Now()
	c.streams[stream{r.Endpoint, r.Proxied}]++
}

// ended notes that a request is over.
func (c *crowd) ended(r *record, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.End = time.Now()
	if err != nil {
		r.Fault = err.Error()
	}
	if !r.First.IsZero() {
		c.streams[stream{r.Endpoint, r.Proxied}]--
	}
	c.records = append(c.records, *r)
}

// streaming reports whether an endpoint streams to both kinds of clients.
func (c *crowd) streaming(endpoint string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams[stream{endpoint, false}] >= 2 && c.streams[stream{endpoint, true}] >= 1
}

// direct asks a router.
func (c *crowd) direct(rng *rand.Rand, r *record) error {
	streamed := rng.IntN(6) > 0
	res, err := c.post(c.door.Load().front, chat(rng, streamed))
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

func (c *crowd) post(address string, body []byte) (*http.Response, error) {
	return c.client.Post("http://"+address+"/v1/chat/completions", "application/json", bytes.NewReader(body))
}

// listener hears when an answer begins, and how it ends.
type listener struct {
	begun func() // called once; nil afterwards
	last  []byte
	wrong int // events that are errors
}

const errorEvent = `data: {"error"`

func (l *listener) Write(p []byte) (int, error) {
	if l.begun != nil {
		l.begun()
		l.begun = nil
	}
	before := l.last[max(0, len(l.last)-len(errorEvent)+1):] // an event may come in pieces
	l.wrong += bytes.Count(append(bytes.Clone(before), p...), []byte(errorEvent))
	l.last = append(l.last, p...)
	l.last = l.last[max(0, len(l.last)-64):]
	return len(p), nil
}

// judge says what is wrong with an answer that came to its end.
func (l *listener) judge(status int, streamed bool) error {
	switch {
	case status != http.StatusOK:
		return fmt.Errorf("status %d", status)
	case l.wrong > 0:
		return fmt.Errorf("%d events say that there was an error", l.wrong)
	case streamed && !bytes.HasSuffix(l.last, []byte("[DONE]\n\n")), !streamed && !bytes.HasSuffix(bytes.TrimSpace(l.last), []byte("}")):
		return fmt.Errorf("half an answer looks whole: it ends with %q", l.last)
	}
	return nil
}

// chat is a request that shares its beginning with some others.
func chat(rng *rand.Rand, stream bool) []byte {
	system := strings.Repeat(fmt.Sprintf("rule %d. ", rng.IntN(16)), 100+rng.IntN(3)*300)
	user := strings.Repeat(fmt.Sprintf("%08x ", rng.Uint32()), 10+rng.IntN(400))
	return fmt.Appendf(nil, `{"model":%q,"stream":%v,"max_tokens":%d,"ignore_eos":true,"messages":[{"role":"system","content":"%s"},{"role":"user","content":"%s"}]}`,
		llm, stream, 8+rng.IntN(56), system, user)
}
