package extproc

import (
	"fmt"
	"time"

	"github.com/spillway-llm/spillway/internal/tracing"
	"github.com/spillway-llm/spillway/router/front"
)

// What a Picker asks to be shown of responses.
const (
	ResponseBody    = "body"    // all: latencies are measured
	ResponseHeaders = "headers" // their headers alone: latencies stay unknown
)

// Config is how a Picker behaves. Begin from Defaults.
type Config struct {
	// MaxBody is the longest request body, in bytes, that is accepted; a
	// longer one is answered 413.
	MaxBody int64

	// MaxHeld is how many bytes the bodies of all requests may take that are held
	// at once; what would take more is answered 503. 0: no bound.
	MaxHeld int64

	// MaxStreams is how many requests may be on their way at once; one more
	// is answered 503.
	MaxStreams int

	// Destinations is how many endpoints the proxy is told to try, in order:
	// the chosen one and those after it.
	Destinations int

	// Response is ResponseBody or ResponseHeaders. The latter asks the proxy
	// to send no response bodies, which it heeds where its own configuration
	// allows mode overrides; a proxy may also be configured so itself.
	Response string

	TLS TLS

	Timeouts Timeouts

	// Tracer makes the spans of requests; nil: none. Their parent is what the
	// request's own headers name: the proxy's span where it has one, else the
	// client's.
	Tracer *tracing.Tracer
}

// Timeouts bound for how long a stream may be silent: it is ended then. They
// are the last resort, for a proxy has time-outs of its own.
type Timeouts struct {
	Body      time.Duration // between two parts of a request
	FirstByte time.Duration // from the decision to a streamed response
	Answer    time.Duration // from the decision to one that is not streamed
	Idle      time.Duration // between two parts of a response
}

// Defaults are the documented defaults.
func Defaults() Config {
	return Config{
		MaxBody:      64 << 20,
		MaxStreams:   20000,
		MaxHeld:      1 << 30,
		Destinations: 3,
		Response:     ResponseBody,
		TLS:          TLS{Mode: TLSSelfSigned},
		Timeouts: Timeouts{
			Body:      time.Minute,
			FirstByte: 300 * time.Second,
			Answer:    15 * time.Minute,
			Idle:      120 * time.Second,
		},
	}
}

// Check reports the first setting that can't work, by its key. Files are read
// by New.
func (c *Config) Check() error {
	if c.MaxBody <= 0 {
		return fmt.Errorf("max_body_bytes: %d; it must be positive", c.MaxBody)
	}
	if err := front.CheckRoom(c.MaxHeld, c.MaxBody); err != nil {
		return err
	}
	if c.MaxStreams <= 0 {
		return fmt.Errorf("extproc_max_streams: %d; it must be positive", c.MaxStreams)
	}
	if c.Destinations <= 0 {
		return fmt.Errorf("extproc_destinations: %d; it must be positive", c.Destinations)
	}
	if c.Response != ResponseBody && c.Response != ResponseHeaders {
		return fmt.Errorf("extproc_response: %q is neither %s nor %s", c.Response, ResponseBody, ResponseHeaders)
	}
	for _, t := range []struct {
		key  string
		wait time.Duration
	}{
		{"body_timeout", c.Timeouts.Body},
		{"first_byte_timeout", c.Timeouts.FirstByte},
		{"answer_timeout", c.Timeouts.Answer},
		{"idle_timeout", c.Timeouts.Idle},
	} {
		if t.wait <= 0 {
			return fmt.Errorf("%s: %v; it must be positive", t.key, t.wait)
		}
	}
	return c.TLS.check()
}
