// Package crowd is clients of a router that accept nothing but whole answers: some
// ask its HTTP front door, and some an engine behind a proxy that asks its endpoint
// picker. Programs that restart and break the parts of Spillway run it beside them,
// and afterwards read what each request met.
package crowd

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/spillway-llm/spillway/router/extproc/extproctest"
)

// Config is who the clients are.
type Config struct {
	LLM             string
	Direct, Proxied int           // clients of each front door
	Thinking        time.Duration // of a client between two requests, on average
	Patience        time.Duration // of a client with one request

	// Door is where the next request goes.
	Door func() Door

	// Shared and Own are how long prompts are: Shared, four or seven times as many
	// rules that some other requests begin with too, and 10 to Own+9 words.
	Shared, Own int
	// Whole: the answer of one in so many requests is not streamed; 0: all are.
	Whole int
	// Once keeps net/http from sending a request again whose connection is gone
	// before it was answered.
	Once bool
}

// Door is the two front doors of one router, as host:port.
type Door struct{ Front, Picker string }

// Record is one request as its client saw it.
type Record struct {
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

// Crowd is the clients.
type Crowd struct {
	config Config
	client *http.Client // of routers, and of engines behind a proxy

	// Gate is held open by every request: who takes it waits until none is under
	// way, and lets no new one begin.
	Gate sync.RWMutex

	mu      sync.Mutex
	records []Record
	streams map[stream]int // answers of which a part has come
	proxies map[string]*extproctest.Proxy
}

// stream is where an answer comes from, and through which door.
type stream struct {
	endpoint string
	proxied  bool
}

// New makes clients that do nothing yet.
func New(c Config) *Crowd {
	return &Crowd{config: c, streams: map[stream]int{}, proxies: map[string]*extproctest.Proxy{},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: c.Direct + c.Proxied}, Timeout: c.Patience}}
}

// Run lets all clients ask until ctx ends. Requests under way then go on to their
// end. The same seed asks for the same things.
func (c *Crowd) Run(ctx context.Context, seed uint64) {
	var running sync.WaitGroup
	for i := range c.config.Direct + c.config.Proxied {
		running.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			ask := c.direct
			if i >= c.config.Direct {
				ask = c.proxied
			}
			for {
				think := time.NewTimer(time.Duration(rng.ExpFloat64() * float64(c.config.Thinking)))
				select {
				case <-ctx.Done():
					think.Stop()
					return
				case <-think.C:
				}
				c.Gate.RLock()
				r := Record{Sent: time.Now()}
				err := ask(rng, &r)
				c.ended(&r, err)
				c.Gate.RUnlock()
			}
		})
	}
	running.Wait()
	for _, p := range c.proxies {
		_ = p.Close() // nothing is under way
	}
	c.client.CloseIdleConnections()
}

// Records are the requests that have ended, in that order.
func (c *Crowd) Records() []Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.records[:len(c.records):len(c.records)]
}

// Streaming reports whether an endpoint streams to both kinds of clients: to two of
// the HTTP front door's at least.
func (c *Crowd) Streaming(endpoint string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams[stream{endpoint, false}] >= 2 && c.streams[stream{endpoint, true}] >= 1
}

// begun notes that a part of an answer has come.
func (c *Crowd) begun(r *Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.First = time.Now()
	c.streams[stream{r.Endpoint, r.Proxied}]++
}

// ended notes that a request is over.
func (c *Crowd) ended(r *Record, err error) {
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
