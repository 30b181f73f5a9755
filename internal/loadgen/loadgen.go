// Package loadgen sends the requests of a trace, or of a synthetic workload, to
// any OpenAI-compatible server and measures what comes back by the same rules
// as the router does.
//
// Open loop is the default: requests leave when the trace says so, however slow
// the answers are. In a closed loop a fixed number of clients each wait for
// their answer before they send again.
//
// Prompts are made of four ASCII bytes a token, which is exactly a token of the
// simulated engines; real tokenisers make other numbers of it, and the engine's
// own count is what is recorded. Prompts whose blocks have equal ids begin with
// equal bytes, so prefix caches work as they would on the real traffic.
package loadgen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spillway-llm/spillway/internal/openai"
	"github.com/spillway-llm/spillway/internal/trace"
)

// Defaults of a Config.
const (
	// DefaultTimeout is the longest that one request may take; the published
	// benchmarks give up after 300 to 600 s.
	DefaultTimeout = 600 * time.Second
	// DefaultMaxInFlight bounds an open loop against a server that answers
	// nothing.
	DefaultMaxInFlight = 8192
)

// Config says what to send where.
type Config struct {
	// URL is the server's base, with or without /v1 behind it.
	URL   string
	Model string
	// API is openai.Completions or openai.Chat; the default is Chat.
	API openai.API
	// Header is sent with every request: keys, SLOs.
	Header http.Header

	// Items are the requests in order of time. They are drawn one at a time,
	// so the sequence may be endless if Limit or Duration is set.
	Items iter.Seq[trace.Item]
	// Limit is the most requests to send, Duration the time after which none
	// is sent any more; 0: no bound. Those in flight are waited for.
	Limit    int
	Duration time.Duration
	// Speedup divides the time between arrivals; 0 means 1. It does nothing in
	// a closed loop.
	Speedup float64
	// Concurrency is the number of clients of a closed loop; 0: open loop.
	Concurrency int
	// Seed makes the prompts: equal seeds send equal bytes, different seeds
	// share no prefix.
	Seed uint64
	// Timeout bounds one request; 0 means DefaultTimeout.
	Timeout time.Duration
	// MaxInFlight bounds an open loop; what would exceed it is not sent and
	// counts as failed with status "overrun". 0 means DefaultMaxInFlight.
	MaxInFlight int

	// Records receives one JSON line for each request as it ends; nil: none.
	// A failing write ends the run.
	Records io.Writer
	// OnRecord is called for each request as it ends, one call at a time; nil:
	// not at all. It must not block: requests wait for it.
	OnRecord func(Record)
	// Progress receives a progress bar; nil: none. Terminal gives the usual
	// choice.
	Progress io.Writer
	// Client sends the requests; nil: one with keep-alive connections of its
	// own, closed at the end. Its Timeout should be 0.
	Client *http.Client
}

// Run sends the requests and returns the summary when the last has ended.
// Requests that fail are results, not errors; an error says that the
// configuration is wrong or that a record could not be written.
//
// When ctx ends, Run stops sending, cancels what is in flight, and returns the
// summary of what there was, marked as interrupted, without an error. Nothing
// that it started outlives it.
func Run(ctx context.Context, c Config) (Summary, error) {
	if err := c.check(); err != nil {
		return Summary{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{Config: c, start: time.Now(), cancel: cancel, endpoint: strings.TrimSuffix(strings.TrimRight(c.URL, "/"), "/v1") + c.API.Path()}
	r.model, _ = json.Marshal(c.Model) // a string always marshals
	if c.Client == nil {
		transport := keepAlive()
		defer transport.CloseIdleConnections()
		r.Client = &http.Client{Transport: transport}
	}
	if c.Progress != nil {
		r.bar = newBar(c.Progress, c.Limit)
	}
	if c.Concurrency > 0 {
		r.closedLoop(ctx)
	} else {
		r.openLoop(ctx)
	}
	if r.bar != nil {
		_ = r.bar.Exit() // a bar that cannot be drawn is no reason to fail
	}
	s := r.tally.summary(time.Since(r.start))
	s.Interrupted = ctx.Err() != nil
	return s, r.failed
}

func (c *Config) check() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return fmt.Errorf("url %q: %w", c.URL, err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("url %q: expected one like http://127.0.0.1:8080", c.URL)
	case c.Model == "":
		return errors.New("model is missing: say which LLM to ask for")
	case c.Items == nil:
		return errors.New("nothing to send: expected a trace or a workload")
	case c.Speedup < 0 || c.Speedup != c.Speedup:
		return fmt.Errorf("speedup %g: expected more than 0", c.Speedup)
	case c.Concurrency < 0:
		return fmt.Errorf("concurrency %d: expected 0 (open loop) or more", c.Concurrency)
	case c.Limit < 0 || c.Duration < 0 || c.Timeout < 0 || c.MaxInFlight < 0:
		return errors.New("limit, duration, timeout and max in flight must not be negative")
	}
	switch c.API {
	case openai.Other:
		c.API = openai.Chat
	case openai.Chat, openai.Completions:
	default:
		return fmt.Errorf("api %v: expected chat or completions", c.API)
	}
	if c.Speedup == 0 {
		c.Speedup = 1
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = DefaultMaxInFlight
	}
	return nil
}

// keepAlive returns a transport that keeps as many idle connections as a burst
// has opened.
func keepAlive() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns = 0
	t.MaxIdleConnsPerHost = DefaultMaxInFlight
	t.DisableCompression = true
	return t
}

// run is the state of one Run.
type run struct {
	Config
	endpoint string
	model    []byte // as a JSON string
	start    time.Time
	cancel   context.CancelCauseFunc
	bar      *bar

	mu     sync.Mutex // guards what follows
	tally  tally
	failed error
}

// record keeps the result of one request.
func (r *run) record(rec Record) {
	line := rec.line()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.add(rec)
	if r.Records != nil && r.failed == nil {
		if _, err := r.Records.Write(line); err != nil {
			r.failed = fmt.Errorf("write record %d: %w", rec.Index, err)
			r.cancel(r.failed)
		}
	}
	if r.OnRecord != nil {
		r.OnRecord(rec)
	}
	if r.bar != nil {
		r.bar.add(rec.Status == OK)
	}
}
