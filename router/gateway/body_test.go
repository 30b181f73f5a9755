package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/gateway"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/route"
)

// filled is a request whose prompt is one letter.
func filled(letter byte, length int) []byte {
	return fmt.Appendf(nil, `{"model":"qwen","stream":true,"messages":[{"role":"user","content":"%s"}]}`, bytes.Repeat([]byte{letter}, length))
}

// Buffers of bodies are used again. Whatever clients and engines do meanwhile,
// nobody's prompt may reach an engine in another's request.
func TestBodiesAreNeverMixed(t *testing.T) {
	var mixed, read atomic.Int64
	others := make(chan struct{}) // something for each request that another has ended
	look := func(w http.ResponseWriter, r *http.Request) {
		want := r.Header.Get("X-Letter")[0]
		body := bufio.NewReader(r.Body)
		switch r.Header.Get("X-Manner") {
		case "answers first":
			http.NewResponseController(w).EnableFullDuplex()
			streamHeaders(w)
			send(w, tokenEvent)
			// Most of the body is still with the gateway, which has its answer.
			wait, cancel := context.WithTimeout(r.Context(), 20*time.Millisecond)
			defer cancel()
			for range 3 {
				select {
				case <-others:
				case <-wait.Done():
				}
			}
		case "breaks off":
			body.Discard(1000)
			panic(http.ErrAbortHandler)
		}
		if _, err := body.ReadBytes(':'); err != nil { // of the model
			return
		}
		text, err := io.ReadAll(body)
		_, prompt, found := strings.Cut(string(text), `"content":"`)
		prompt, _, _ = strings.Cut(prompt, `"`)
		if found && strings.Trim(prompt, string(want)) != "" {
			mixed.Add(1)
		}
		if err != nil {
			return
		}
		read.Add(1)
		streamHeaders(w)
		send(w, tokenEvent+endEvent+doneEvent)
	}
	var urls []string
	for range 3 {
		e := httptest.NewUnstartedServer(http.HandlerFunc(look))
		e.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		e.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
			c.(*net.TCPConn).SetReadBuffer(16 << 10)
			return ctx
		}
		e.Start()
		t.Cleanup(e.Close)
		urls = append(urls, e.URL)
	}
	narrow := gateway.Transport(time.Second)
	narrow.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			c.(*net.TCPConn).SetWriteBuffer(16 << 10)
		}
		return c, err
	}
	t.Cleanup(narrow.CloseIdleConnections)
	f := newFront(t, func(c *gateway.Config) { c.Transport = narrow }, urls...)
	go func() {
		for range f.outcomes {
		}
	}()
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for range 25 {
				ctx, cancel := context.WithCancel(t.Context())
				letter := byte('a' + rng.IntN(26))
				body := filled(letter, 1+rng.IntN(1<<(10+rng.IntN(9))))
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+"/v1/chat/completions", bytes.NewReader(body))
				if err != nil {
					t.Error(err)
				}
				r.Header.Set("X-Letter", string(letter))
				manner := []string{"waits", "waits", "answers first", "breaks off", "is left"}[rng.IntN(5)]
				r.Header.Set("X-Manner", manner)
				if manner == "is left" {
					r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body[:len(body)/2]), leaving(cancel), bytes.NewReader(body[len(body)/2:])))
				}
				if a, err := http.DefaultClient.Do(r); err == nil {
					io.Copy(io.Discard, a.Body)
					a.Body.Close()
				}
				cancel()
				select {
				case others <- struct{}{}:
				default:
				}
			}
		})
	}
	all.Wait()
	if mixed.Load() > 0 || read.Load() < 100 {
		t.Errorf("of %d prompts %d had something of another's", read.Load(), mixed.Load())
	}
}

// leaving is a reader of nothing that calls f.
type leaving func()

func (f leaving) Read([]byte) (int, error) { f(); return 0, io.EOF }

// instant is an engine that takes a body in and answers at once.
type instant struct{ answer string }

func (e instant) RoundTrip(r *http.Request) (*http.Response, error) {
	buf := make([]byte, 4096)
	for {
		if _, err := r.Body.Read(buf); err != nil {
			break
		}
	}
	r.Body.Close()
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(e.answer)),
	}, nil
}

type forgotten struct{}

func (forgotten) RecordDecision(feature.Decision) {}
func (forgotten) RecordOutcome(feature.Outcome)   {}

// sink is a client that takes what comes.
type sink struct{ header http.Header }

func (s sink) Header() http.Header         { return s.header }
func (s sink) Write(p []byte) (int, error) { return len(p), nil }
func (s sink) WriteHeader(int)             {}
func (s sink) Flush()                      {}

// A request does not allocate its prompt.
func TestLongPromptsAllocateLittle(t *testing.T) {
	config := route.Defaults()
	config.Name, config.Policy, config.DefaultProfile = "test", policy.TokenLoad, physics.Profiles()[0]
	quiet := slog.New(slog.DiscardHandler)
	r, err := route.New(config, endpoints([]string{"http://a:1", "http://b:1"}), nil, forgotten{}, quiet, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	c := gateway.Defaults()
	c.Transport = instant{tokenEvent + endEvent + doneEvent}
	g := gateway.New(c, r, quiet, nil)
	each := func(length int) uint64 {
		body := filled('x', length)
		ask := func() {
			r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", bytes.NewReader(body))
			g.ServeHTTP(sink{http.Header{}}, r)
		}
		const n = 100
		for range n {
			ask()
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			ask()
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / n
	}
	// No more than one time in four, which is when a pool forgets what it holds under
	// the race detector; and the chain of the prompt's blocks, 8 bytes for 256.
	if short, long := each(1000), each(200_000); long > short+150_000 {
		t.Errorf("%d bytes for a prompt of 1,000, %d for one of 200,000", short, long)
	}
}
