package pool

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Source is a place that endpoints are heard of while the pool runs.
type Source interface {
	// String names it for people and metrics, always the same: "service llm/qwen".
	String() string

	// Run tells the pool what is there, at once and after every change, until
	// ctx ends; then it returns, and nothing it started is left. It calls tell
	// from one goroutine at a time.
	Run(ctx context.Context, tell func(News))
}

// News is what a Source says.
type News struct {
	// Endpoints is all it has, none where it is empty and not nil. Nil: as it
	// said last.
	Endpoints []Endpoint
	// Complaints say what it left out, and why.
	Complaints []error
	// Err, if not nil, is why it can't be asked now. A *SourceError carries the
	// metric's reason.
	Err error
}

// Why a source can't be asked: the values of the metric's label reason.
const (
	Forbidden   = "forbidden"   // it may not know: permission or credentials
	NotFound    = "not_found"   // there is nothing under that name
	Unreachable = "unreachable" // nobody answered
	Failed      = "failed"      // it answered with another error
)

// SourceError is an error of a source with its reason.
type SourceError struct {
	Reason string // one of the constants above
	Err    error
}

func (e *SourceError) Error() string { return e.Err.Error() }

// Unwrap returns the error without its reason.
func (e *SourceError) Unwrap() error { return e.Err }

// SourceStatus is how a source stands.
type SourceStatus struct {
	Source     string    `json:"source"`
	Endpoints  int       `json:"endpoints"`       // that it named last and that the pool has
	Heard      time.Time `json:"heard"`           // when it last could be asked; zero: never
	Error      string    `json:"error,omitempty"` // why it can't be asked now
	Since      time.Time `json:"since,omitzero"`  // of the error
	Complaints []string  `json:"complaints,omitempty"`
}

// Traits are what endpoints that a source finds have in common, where it is
// not told otherwise of one. Keys are those of an endpoint.
type Traits struct {
	Scheme      string   `yaml:"scheme"`       // http when empty, or https
	Class       string   `yaml:"class"`        // accelerator, engine and flags; endpoints of one class behave alike
	Profile     string   `yaml:"profile"`      // name of an engine profile, or empty
	LLMs        []string `yaml:"llms"`         // what they serve; asked of each (GET /v1/models) when empty
	MetricsPath string   `yaml:"metrics_path"` // /metrics when empty
	MetricsPort int      `yaml:"metrics_port"` // of their metrics pages; that of requests when 0
}

// Check reports the first trait that no endpoint can have, by its key.
func (t *Traits) Check() error {
	if t.Scheme != "" && t.Scheme != "http" && t.Scheme != "https" {
		return fmt.Errorf("scheme %q is neither http nor https", t.Scheme)
	}
	_, err := t.At("localhost", 1).complete()
	return err
}

// At is the endpoint at an address.
func (t *Traits) At(host string, port int) Endpoint {
	scheme := t.Scheme
	if scheme == "" {
		scheme = "http"
	}
	address := net.JoinHostPort(host, strconv.Itoa(port))
	return Endpoint{
		ID: address, URL: scheme + "://" + address, Class: t.Class, Profile: t.Profile,
		LLMs: slices.Clone(t.LLMs), MetricsPath: t.MetricsPath, MetricsPort: t.MetricsPort,
	}
}

// origin is one place that endpoints come from. Its fields are guarded by
// Pool.mu.
type origin struct {
	source     Source // nil: the configuration or the file
	named      []Endpoint
	complaints []string

	heard  time.Time // when it was known last
	failed *SourceError
	since  time.Time // of the failure
	has    int       // endpoints of the pool that it named
}

// Places in Pool.origins.
const (
	fromConfig = iota
	fromFile
	firstSource
)

// take makes endpoints all that an origin names, each complete.
func (p *Pool) take(o *origin, endpoints []Endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o.named = endpoints
	p.assemble(p.began)
}

// assemble makes the pool of what its origins name. An endpoint that two of
// them name is the first one's. Under p.mu.
func (p *Pool) assemble(late bool) {
	var all []Endpoint
	seen := map[string]bool{}
	for _, o := range p.origins {
		o.has = 0
		for _, e := range o.named {
			if seen[e.ID] {
				continue
			}
			seen[e.ID] = true
			o.has++
			all = append(all, e)
		}
	}
	p.replace(all, late)
}

// hear takes in what a source says.
func (p *Pool) hear(o *origin, n News) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name, now := o.source.String(), p.now()
	if n.Endpoints != nil {
		p.admit(o, n)
	}
	if n.Err == nil {
		if o.failed != nil {
			p.log.Info("source of endpoints is known again", "source", name, "after", now.Sub(o.since).Round(time.Millisecond), "endpoints", o.has)
		}
		o.heard, o.failed, o.since = now, nil, time.Time{}
		return
	}
	var failed *SourceError
	if !errors.As(n.Err, &failed) {
		failed = &SourceError{Failed, n.Err}
	}
	p.metrics.discoveryFailures.WithLabelValues(name, failed.Reason).Inc()
	if o.failed == nil {
		o.since = now
	}
	if o.failed == nil || o.failed.Reason != failed.Reason {
		p.log.Error("source of endpoints can't be asked: what it said last stands", "source", name, "endpoints", o.has, "error", failed)
	}
	o.failed = failed
}

// admit takes in the endpoints that a source names, but those that can't be used.
// What is left out is said once until it changes.
func (p *Pool) admit(o *origin, n News) {
	named := make([]Endpoint, 0, len(n.Endpoints))
	var complaints []string
	for _, c := range n.Complaints {
		complaints = append(complaints, c.Error())
	}
	for _, e := range n.Endpoints {
		switch e, err := e.complete(); {
		case err != nil:
			complaints = append(complaints, err.Error())
		case slices.ContainsFunc(named, func(x Endpoint) bool { return x.ID == e.ID }):
			complaints = append(complaints, fmt.Sprintf("endpoint %s is named twice", e.ID))
		default:
			if other := p.holder(o, e.ID); other != "" {
				complaints = append(complaints, fmt.Sprintf("endpoint %s is already in %s", e.ID, other))
			}
			named = append(named, e)
		}
	}
	for _, c := range complaints {
		if !slices.Contains(o.complaints, c) {
			p.metrics.discoveryRejected.WithLabelValues(o.source.String()).Inc()
			p.log.Error("source of endpoints: one is left out", "source", o.source.String(), "error", c)
		}
	}
	o.complaints = complaints
	first := o.named == nil
	o.named = named
	// A source that is heard for the first time says what was there before, and
	// may be warm.
	p.assemble(!first)
}

// holder is the origin before o that names an endpoint, or "".
func (p *Pool) holder(o *origin, id string) string {
	for i, before := range p.origins {
		if before == o {
			return ""
		}
		if slices.ContainsFunc(before.named, func(e Endpoint) bool { return e.ID == id }) {
			switch i {
			case fromConfig:
				return "the configuration"
			case fromFile:
				return "the endpoints file"
			}
			return before.source.String()
		}
	}
	return ""
}

// Sources says how each source stands, in the order of the configuration.
func (p *Pool) Sources() []SourceStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []SourceStatus
	for _, o := range p.origins[firstSource:] {
		s := SourceStatus{Source: o.source.String(), Endpoints: o.has, Heard: o.heard, Since: o.since, Complaints: slices.Clone(o.complaints)}
		if o.failed != nil {
			s.Error = strings.TrimSpace(o.failed.Error())
		}
		all = append(all, s)
	}
	return all
}
