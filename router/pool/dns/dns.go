// Package dns finds endpoints by resolving a name again and again: the
// addresses of a headless Service or of a list somebody keeps in a zone.
//
// An answer replaces the one before it. No answer changes nothing, and neither
// does one that says there is no such name: a resolver that has just started, or
// a search path that was mistyped, says the same, and an endpoint that is really
// gone soon fails its scrapes. What only DNS knows can't be told to drain; give
// it its own endpoint in the configuration, or use Kubernetes discovery.
package dns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/router/pool"
)

// Types of a Query.
const (
	A    = "A"
	AAAA = "AAAA"
	SRV  = "SRV"
)

// DefaultInterval is between two resolutions of a name: what CoreDNS lets its
// answers about a cluster live is 5 s to 30 s.
const DefaultInterval = 10 * time.Second

// timeout of all questions of one resolution.
const timeout = 5 * time.Second

// Query is a name that stands for endpoints.
type Query struct {
	Name     string        `yaml:"name"`     // resolved as it is, when it ends with a dot, or by the system's search path
	Type     string        `yaml:"type"`     // A when empty, AAAA or SRV
	Port     int           `yaml:"port"`     // of the engines; an SRV record has its own
	Interval time.Duration `yaml:"interval"` // between two resolutions; 10 s when 0
	Server   string        `yaml:"server"`   // host:port of the server to ask; the system's when empty

	pool.Traits `yaml:",inline"`
}

// Check reports the first setting that can't work, by its key. It asks nobody.
func (q *Query) Check() error {
	switch {
	case q.Name == "":
		return errors.New("name: is empty; want one such as vllm.llm.svc.cluster.local")
	case net.ParseIP(q.Name) != nil || strings.ContainsAny(q.Name, "/: "):
		return fmt.Errorf("name: %q can't be a DNS name", q.Name)
	case !slices.Contains([]string{"", A, AAAA, SRV}, q.Type):
		return fmt.Errorf("type: %q is not known; want A, AAAA or SRV", q.Type)
	case q.Type == SRV && q.Port != 0:
		return errors.New("port: an SRV record has its own; leave it out")
	case q.Type != SRV && (q.Port < 1 || q.Port > 65535):
		return fmt.Errorf("port: %d; want 1 to 65535, the port of the engines", q.Port)
	case q.Interval != 0 && q.Interval < time.Second:
		return fmt.Errorf("interval: %v; want at least 1s", q.Interval)
	}
	if _, _, err := net.SplitHostPort(q.Server); q.Server != "" && err != nil {
		return fmt.Errorf("server: %q is no address; want host:port", q.Server)
	}
	return q.Traits.Check()
}

// Source resolves one Query for the pool: a pool.Source.
type Source struct {
	query    Query
	resolver *net.Resolver
}

// New makes a Source of a query that was checked. It asks nobody until Run.
func New(q Query) *Source {
	q.Type = cmp.Or(q.Type, A)
	q.Interval = cmp.Or(q.Interval, DefaultInterval)
	s := &Source{query: q, resolver: net.DefaultResolver}
	if q.Server != "" {
		var dialer net.Dialer
		s.resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, q.Server)
		}}
	}
	return s
}

// String names the query, for people and metrics.
func (s *Source) String() string {
	if s.query.Port == 0 {
		return fmt.Sprintf("dns %s %s", s.query.Type, s.query.Name)
	}
	return fmt.Sprintf("dns %s %s:%d", s.query.Type, s.query.Name, s.query.Port)
}

// Run resolves at once and then every interval, until ctx ends.
func (s *Source) Run(ctx context.Context, tell func(pool.News)) {
	tick := time.NewTicker(s.query.Interval)
	defer tick.Stop()
	for {
		endpoints, err := s.resolve(ctx)
		if ctx.Err() != nil {
			return
		}
		tell(pool.News{Endpoints: endpoints, Err: err})
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// resolve asks once: endpoints by address, each once, or an error.
func (s *Source) resolve(ctx context.Context) ([]pool.Endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var all []pool.Endpoint
	var err error
	switch s.query.Type {
	case SRV:
		all, err = s.services(ctx)
	case AAAA:
		all, err = s.addresses(ctx, "ip6", s.query.Name, s.query.Port)
	default:
		all, err = s.addresses(ctx, "ip4", s.query.Name, s.query.Port)
	}
	if err != nil {
		return nil, s.explain(err)
	}
	byID := func(a, b pool.Endpoint) int { return strings.Compare(a.ID, b.ID) }
	slices.SortFunc(all, byID)
	return slices.CompactFunc(all, func(a, b pool.Endpoint) bool { return a.ID == b.ID }), nil
}

func (s *Source) addresses(ctx context.Context, network, name string, port int) ([]pool.Endpoint, error) {
	addresses, err := s.resolver.LookupNetIP(ctx, network, name)
	if err != nil {
		return nil, err
	}
	var all []pool.Endpoint
	for _, a := range addresses {
		all = append(all, s.query.At(a.Unmap().String(), port))
	}
	return all, nil
}

// services are the targets of SRV records, of whatever priority and weight: the
// router has better reasons to prefer one. Half an answer is none.
func (s *Source) services(ctx context.Context) (all []pool.Endpoint, err error) {
	_, records, err := s.resolver.LookupSRV(ctx, "", "", s.query.Name)
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		some, err := s.addresses(ctx, "ip", r.Target, int(r.Port))
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func (s *Source) explain(err error) error {
	reason := pool.Unreachable
	var failed *net.DNSError
	if errors.As(err, &failed) && failed.IsNotFound {
		reason = pool.NotFound
	}
	return &pool.SourceError{Reason: reason, Err: fmt.Errorf("%s can't be resolved: %w", s, err)}
}
