package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/internal/physics"
)

// Group is a number of endpoints with one profile.
type Group struct {
	Profile physics.Profile
	Count   int
}

// Config describes a fleet. Zero values take the defaults given.
type Config struct {
	Host           string  // to listen on; 127.0.0.1
	Port           int     // of the first endpoint, the others follow; 0 takes any free ports
	Groups         []Group // endpoints, in order; at least one
	Model          string  // name of the LLM that requests must ask for; required
	MaxTokens      int     // context length, prompt and output; what the KV cache holds
	MedianOutput   int     // of the output length drawn where a request does not fix it; 200
	ReasoningShare float64 // of the output tokens of a chat that go to reasoning_content, 0 to 1; 0. A chat that enables thinking gets at least half
	PerturbSeed    uint64  // see fleet.Perturb; 0 leaves the engines as their profiles say
	Seed           uint64  // of step noise and output lengths
	Logger         *slog.Logger

	// Listen binds the address of an endpoint; nil binds it over TCP.
	Listen func(address string) (net.Listener, error)
}

func (c Config) withDefaults() (Config, error) {
	if c.Host == "" {
		c.Host = "127.0.0.1"
	}
	if c.MedianOutput == 0 {
		c.MedianOutput = 200
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Listen == nil {
		c.Listen = func(address string) (net.Listener, error) { return net.Listen("tcp", address) }
	}
	n := 0
	for _, g := range c.Groups {
		if g.Count < 0 {
			return c, fmt.Errorf("profile %s has %d endpoints: want 0 or more", g.Profile.Name, g.Count)
		}
		n += g.Count
	}
	switch {
	case n == 0:
		return c, fmt.Errorf("a fleet of 0 endpoints: want at least 1")
	case c.Model == "":
		return c, fmt.Errorf("model is empty: want the name of the LLM to serve")
	case c.MedianOutput < 1:
		return c, fmt.Errorf("median output is %d tokens: want at least 1", c.MedianOutput)
	case !(c.ReasoningShare >= 0 && c.ReasoningShare <= 1):
		return c, fmt.Errorf("reasoning share is %v: want 0 to 1", c.ReasoningShare)
	case c.Port < 0 || c.Port+n-1 > 65535:
		return c, fmt.Errorf("port is %d for %d endpoints: want 0, or a port that leaves room for all below 65536", c.Port, n)
	}
	return c, nil
}

// Server is a fleet of simulated endpoints.
type Server struct {
	cfg       Config
	endpoints []*Endpoint
}

// New binds the ports of a fleet; nothing is served before Run. A port that is
// taken is an error that names it.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg}
	for _, g := range cfg.Groups {
		for range g.Count {
			e, err := newEndpoint(s, len(s.endpoints), g.Profile)
			if err != nil {
				s.close()
				return nil, err
			}
			s.endpoints = append(s.endpoints, e)
		}
	}
	return s, nil
}

func newEndpoint(s *Server, index int, p physics.Profile) (*Endpoint, error) {
	e := &Endpoint{fleet: s, index: index, profile: p, failed: make(chan error, 1)}
	e.fault.Store(&Fault{Kind: None})
	if s.cfg.PerturbSeed != 0 {
		e.profile, e.overhead = fleet.Perturb(p, s.cfg.PerturbSeed, index)
	}
	if _, err := e.newEngine(); err != nil {
		return nil, err
	}
	port := 0
	if s.cfg.Port != 0 {
		port = s.cfg.Port + index
	}
	ln, err := s.cfg.Listen(net.JoinHostPort(s.cfg.Host, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("endpoint %d: %w", index, err)
	}
	e.ln, e.addr = ln, ln.Addr().String()
	return e, nil
}

func (s *Server) close() {
	for _, e := range s.endpoints {
		e.ln.Close()
	}
}

// URLs returns the base URL of every endpoint, without a path.
func (s *Server) URLs() []string {
	urls := make([]string, len(s.endpoints))
	for i, e := range s.endpoints {
		urls[i] = e.URL()
	}
	return urls
}

// Endpoint returns the endpoint with an index from 0.
func (s *Server) Endpoint(index int) *Endpoint { return s.endpoints[index] }

// Run serves until ctx ends, or returns the first error of a listener. When it
// returns nothing is running any more and the ports are free. It can be called
// once.
func (s *Server) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, e := range s.endpoints {
		g.Go(func() error { return e.run(ctx) })
	}
	s.cfg.Logger.Info("simulated fleet is serving", "endpoints", len(s.endpoints), "first", s.endpoints[0].URL(), "model", s.cfg.Model)
	return g.Wait()
}
