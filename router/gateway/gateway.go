// Package gateway is the HTTP front door: it speaks the OpenAI API to clients,
// asks route where each request goes, and streams the endpoint's answer back.
// It translates and measures; it decides nothing.
//
// A request is read once, scanned once and forwarded as it came. The answer is
// passed on read by read, unbuffered, while a meter listens for the latency
// labels. Until the first byte of an answer's body has arrived, nothing has
// been promised to the client: a failure before it moves the request to the
// next best endpoint, once. After it, a failure breaks the client's connection,
// so that half an answer never looks like a whole one.
//
// How a request is recorded:
//
//	ok                the answer was complete; the only status with an E2E
//	upstream_error    no answer (502), half an answer, an error inside the
//	                  answer, or an HTTP status of 400 and above from the
//	                  endpoint, which passes through with its body. The HTTP
//	                  status is recorded too, so a client's own mistake (4xx)
//	                  can be told from a sick endpoint (5xx)
//	upstream_timeout  the first byte (504) or the next one did not come in time
//	client_abort      the client left, or stopped reading (499 before an answer)
//	lost              the router stopped, or failed itself
//
// Requests refused before a decision (400, 404, 408, 413, 415, 429, 503) are
// counted by reason and have no outcome here. Protocol upgrades (WebSocket) are
// not proxied.
package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/openai"
	"github.com/spillway-llm/spillway/router/route"
)

// Config is how a Gateway behaves. Begin from Defaults.
type Config struct {
	// MaxBody is the longest request body, in bytes, that is accepted; a
	// longer one is answered 413.
	MaxBody int64

	// AskUsage makes the router ask engines for the usage of streamed answers
	// where the client did not, and take the extra chunk out again. It gives
	// every row an exact token count.
	AskUsage bool

	Timeouts Timeouts

	// Transport reaches the endpoints. Nil means Transport(Timeouts.Connect).
	Transport http.RoundTripper
}

// Timeouts bound what a request waits for. There is none for a whole answer:
// long generations are normal.
type Timeouts struct {
	Body      time.Duration // for the whole request body to arrive
	Connect   time.Duration // for a connection to an endpoint; where Transport is nil
	FirstByte time.Duration // from dispatch to the first byte of the answer's body, each attempt anew
	Idle      time.Duration // between two reads of one answer
	Write     time.Duration // for the client to take what was read
}

// Defaults are the documented defaults. The first-byte bound is the 300 s that
// published measurements of this kind of router use as client time-out.
func Defaults() Config {
	return Config{
		MaxBody: 64 << 20,
		Timeouts: Timeouts{
			Body:      time.Minute,
			Connect:   3 * time.Second,
			FirstByte: 300 * time.Second,
			Idle:      120 * time.Second,
			Write:     120 * time.Second,
		},
	}
}

// Check reports the first setting that can't work, by its key.
func (c *Config) Check() error {
	if c.MaxBody <= 0 {
		return fmt.Errorf("max_body_bytes: %d; it must be positive", c.MaxBody)
	}
	for _, t := range []struct {
		key  string
		wait time.Duration
	}{
		{"body_timeout", c.Timeouts.Body},
		{"connect_timeout", c.Timeouts.Connect},
		{"first_byte_timeout", c.Timeouts.FirstByte},
		{"idle_timeout", c.Timeouts.Idle},
		{"write_timeout", c.Timeouts.Write},
	} {
		if t.wait <= 0 {
			return fmt.Errorf("%s: %v; it must be positive", t.key, t.wait)
		}
	}
	return nil
}

// ErrStopping, as the cause of a request context's cancellation, says that the
// router is going away: such requests are recorded as lost, not as aborted by
// their clients.
var ErrStopping = errors.New("the router is stopping")

// Gateway is an http.Handler for everything below /v1.
type Gateway struct {
	config    Config
	router    *route.Router
	transport http.RoundTripper
	log       *slog.Logger
	metrics   *metrics
	since     time.Time // what /v1/models says LLMs were created at
	meters    sync.Pool // of *openai.Meter
	buffers   sync.Pool // of *[]byte, readSize long
}

// readSize is the most that is read from an endpoint, and written to a client,
// at once. Streamed events are far shorter; whole answers take a few reads.
const readSize = 32 << 10

// New makes a gateway in front of r. The config must pass Check; metrics go to
// reg, which may be nil.
func New(config Config, r *route.Router, log *slog.Logger, reg prometheus.Registerer) *Gateway {
	g := &Gateway{
		config:    config,
		router:    r,
		transport: config.Transport,
		log:       log,
		metrics:   newMetrics(reg),
		since:     time.Now(),
		meters:    sync.Pool{New: func() any { return new(openai.Meter) }},
		buffers:   sync.Pool{New: func() any { b := make([]byte, readSize); return &b }},
	}
	if g.transport == nil {
		g.transport = Transport(config.Timeouts.Connect)
	}
	return g
}

// ServeHTTP answers one request. It panics with http.ErrAbortHandler, as
// net/http wants it, where a client's connection must be broken.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !served(r.URL.Path) {
		g.refuse(w, fault{http.StatusNotFound, "unknown_path", "this router serves paths below /v1 only", 0})
		return
	}
	if g.serveModels(w, r) {
		return
	}
	x := &exchange{g: g, w: w, r: r, control: http.NewResponseController(w)}
	g.metrics.inFlight.Inc()
	defer g.metrics.inFlight.Dec()
	defer x.close()
	body, err := x.read()
	if err != nil {
		x.reject(err)
		return
	}
	if err := x.begin(body); err != nil {
		x.reject(err)
		return
	}
	x.serve()
}

// served reports whether path lies below /v1 and stays there: dot segments
// could lead an endpoint elsewhere.
func served(path string) bool {
	if path != "/v1" && !strings.HasPrefix(path, "/v1/") {
		return false
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return false
		}
	}
	return true
}
