package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// client sends requests and counts what comes.
type client struct {
	http    *http.Client
	prompts map[int][][]byte // bodies by the length of their prompts
}

func newClient(seed uint64) *client {
	rng := rand.New(rand.NewPCG(seed, 0))
	c := &client{prompts: map[int][][]byte{}, http: &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 2 * streams, WriteBufferSize: 32 << 10, ReadBufferSize: 16 << 10, DisableCompression: true,
	}}}
	for _, size := range []int{short, long} {
		for range 16 {
			c.prompts[size] = append(c.prompts[size], chat(rng, size))
		}
	}
	return c
}

// chat is a request's body: turns of words with the escapes of ordinary text.
// Half of it is the same in all.
func chat(rng *rand.Rand, size int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"model":%q,"stream":true,"max_tokens":1000,"messages":[{"role":"system","content":"`, llm)
	turn := max(size/20, 100)
	same := rand.New(rand.NewPCG(uint64(size), 1))
	for written, left := 0, turn; written < size; {
		from := rng
		if written < size/2 {
			from = same
		}
		word := strconv.FormatUint(from.Uint64N(1e6), 36) + " "
		if from.IntN(12) == 0 {
			word = `.\n`
		}
		b.WriteString(word)
		written += len(word)
		if left -= len(word); left <= 0 {
			b.WriteString(`"},{"role":"user","content":"`)
			left = turn
		}
	}
	b.WriteString(`"}]}`)
	return b.Bytes()
}

// load is what is asked at one time.
type load struct {
	Prompt     int           // bytes
	Tokens     int           // of each answer
	Pace       time.Duration // between two of them; 0: as fast as they go
	Concurrent int
	Spread     time.Duration // over which the clients begin, so that they are not all at the same token
}

// outcome is what a load came to.
type outcome struct {
	Requests int
	Failed   int // not answered with 200 and all they asked for
	Events   int // tokens that came
	Missing  int // tokens that did not
	TTFT     []time.Duration
	Elapsed  time.Duration
	CPU      time.Duration // of the process in between
	Mallocs  uint64        // the same
}

func (o *outcome) add(p outcome) {
	o.Requests += p.Requests
	o.Failed += p.Failed
	o.Events += p.Events
	o.Missing += p.Missing
	o.TTFT = append(o.TTFT, p.TTFT...)
	o.Elapsed += p.Elapsed
	o.CPU += p.CPU
	o.Mallocs += p.Mallocs
}

// way is how requests reach the engines.
type way struct {
	name    string
	urls    []string // taken in turn
	process *server  // in between; nil for a direct connection
}

// run asks by one way, each of l.Concurrent clients one request after the other,
// until the time is up; those under way then end.
func (c *client) run(ctx context.Context, by way, l load, lasting time.Duration) (total outcome, err error) {
	before, err := by.process.used("")
	if err != nil {
		return total, err
	}
	began := time.Now()
	parts := make([]outcome, l.Concurrent)
	var all sync.WaitGroup
	for i := range parts {
		all.Go(func() {
			wait(ctx, time.Duration(i)*l.Spread/time.Duration(l.Concurrent))
			for n := i; ctx.Err() == nil && (time.Since(began) < lasting || parts[i].Requests == 0); n++ {
				c.ask(ctx, by.urls[n%len(by.urls)], c.prompts[l.Prompt][n%16], l, &parts[i])
			}
		})
	}
	all.Wait()
	for _, p := range parts {
		total.add(p)
	}
	total.Elapsed = time.Since(began)
	after, err := by.process.used("")
	total.CPU, total.Mallocs = after.CPU-before.CPU, after.Mallocs-before.Mallocs
	if err == nil {
		err = ctx.Err()
	}
	return total, err
}

func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// ask sends one request and reads its answer to the end.
func (c *client) ask(ctx context.Context, url string, body []byte, l load, into *outcome) {
	into.Requests++
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		into.Failed++
		return
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(headerTokens, strconv.Itoa(l.Tokens))
	r.Header.Set(headerPace, l.Pace.String())
	sent := time.Now()
	a, err := c.http.Do(r)
	if err != nil {
		into.Failed++
		into.Missing += l.Tokens
		return
	}
	defer a.Body.Close()
	read := 0
	buf := make([]byte, 16<<10)
	for err == nil {
		var n int
		n, err = a.Body.Read(buf)
		if read == 0 && n > 0 {
			into.TTFT = append(into.TTFT, time.Since(sent))
		}
		read += n
	}
	// The engine's bytes are known, so that they need not be read to be counted.
	events := (read - len(lastEvents)) / len(tokenEvent)
	into.Events += max(events, 0)
	into.Missing += max(l.Tokens-max(events, 0), 0)
	if err != io.EOF || a.StatusCode != http.StatusOK || read != l.Tokens*len(tokenEvent)+len(lastEvents) {
		into.Failed++
	}
}
