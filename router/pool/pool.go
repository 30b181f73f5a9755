package pool

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/socket"
)

// Config is what a Pool works on. Zero fields mean the default given.
type Config struct {
	Endpoints []Endpoint // always in the pool
	File      string     // an endpoints file (ParseEndpoints), watched; empty: none
	Sources   []Source   // other places that endpoints are heard of

	Interval   time.Duration // between two scrapes of one endpoint; 1 s, give or take 10 %
	Timeout    time.Duration // of one scrape; 3 s
	MaxBackoff time.Duration // longest pause while scrapes fail; 10 s

	FailAfter    int           // consecutive failures until an endpoint is unhealthy; 3
	RecoverAfter int           // consecutive successes until it is healthy again; 2
	TrafficHold  time.Duration // how long failed requests alone keep it unhealthy; 10 s

	// Transport carries scrapes; nil: one of its own, without a proxy.
	Transport http.RoundTripper
}

func (c Config) complete() Config {
	c.Interval = cmp.Or(c.Interval, time.Second)
	c.Timeout = cmp.Or(c.Timeout, 3*time.Second)
	c.MaxBackoff = max(c.Interval, cmp.Or(c.MaxBackoff, 10*time.Second))
	c.FailAfter = max(1, cmp.Or(c.FailAfter, 3))
	c.RecoverAfter = max(1, cmp.Or(c.RecoverAfter, 2))
	c.TrafficHold = cmp.Or(c.TrafficHold, 10*time.Second)
	if c.Transport == nil {
		c.Transport = &http.Transport{
			DialContext:         dial,
			MaxIdleConnsPerHost: 1,
			IdleConnTimeout:     time.Minute,
			DisableCompression:  true, // a local network is cheaper than two CPUs
		}
	}
	return c
}

// dial connects to an endpoint.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return socket.Quiet(conn), nil
}

// Pool keeps the endpoints. Make one with New; nothing happens until Run.
type Pool struct {
	config  Config
	client  *http.Client
	log     *slog.Logger
	metrics *metrics
	now     func() time.Time

	snapshot atomic.Pointer[Snapshot]
	file     []byte // the endpoints file as it was read last; New's, then the watch's

	mu       sync.Mutex
	origins  []*origin // the configuration, the file, then the sources: the first to name an endpoint has it
	members  map[string]*member
	ordered  []*member // the same, by id
	departed departed
	lives    uint64 // the incarnation given last
	began    bool   // the endpoints of the beginning are in
	changed  chan struct{}
}

// New checks the configuration and returns a pool with its endpoints, none of
// them asked yet. An endpoints file that cannot be used is logged, not an
// error: it may be written later. registerer and log may be nil.
func New(c Config, registerer prometheus.Registerer, log *slog.Logger) (*Pool, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c = c.complete()
	p := &Pool{
		config: c,
		client: &http.Client{
			Transport:     c.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		log:     log,
		now:     time.Now,
		members: make(map[string]*member),
		changed: make(chan struct{}, 1),
	}
	listed, err := complete(c.Endpoints)
	if err != nil {
		return nil, err
	}
	p.config.Endpoints = listed
	p.origins = []*origin{{}, {}}
	for i, s := range c.Sources {
		if slices.ContainsFunc(c.Sources[:i], func(x Source) bool { return x.String() == s.String() }) {
			return nil, fmt.Errorf("discovery: %s is there twice", s)
		}
		p.origins = append(p.origins, &origin{source: s})
	}
	p.metrics, err = newMetrics(registerer, p)
	if err != nil {
		return nil, fmt.Errorf("register the pool's metrics: %w", err)
	}
	p.take(p.origins[fromConfig], listed)
	if c.File != "" {
		p.file = p.readFile(nil)
	}
	p.began = true
	return p, nil
}

// complete checks a configured list.
func complete(configured []Endpoint) ([]Endpoint, error) {
	var all []Endpoint
	seen := map[string]int{}
	for i, e := range configured {
		e, err := e.complete()
		if err != nil {
			return nil, fmt.Errorf("endpoints[%d]: %w", i, err)
		}
		if j, twice := seen[e.ID]; twice {
			return nil, fmt.Errorf("endpoints[%d]: endpoint %s is already endpoints[%d]: give one of them another id", i, e.ID, j)
		}
		seen[e.ID] = i
		all = append(all, e)
	}
	return all, nil
}

// Snapshot returns what is known now. It is never nil and costs one load.
func (p *Pool) Snapshot() *Snapshot { return p.snapshot.Load() }

// ReportFailure says that a request failed for the endpoint's own fault: no
// connection, a reset, a 5xx that is not overload. Enough of them in a row
// make it unhealthy.
func (p *Pool) ReportFailure(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.members[id]; m != nil {
		m.health.traffic.fail(p.config.FailAfter)
		m.health.failedAt = p.now()
		p.judge(m, "requests failed")
	}
}

// ReportSuccess says that the endpoint answered a request.
func (p *Pool) ReportSuccess(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.members[id]; m != nil && m.health.traffic != (streak{}) {
		m.health.traffic.succeed(p.config.RecoverAfter)
		if !m.health.traffic.down {
			m.health.traffic = streak{}
		}
		p.judge(m, "requests succeed")
	}
}

// judge publishes a change of health.
func (p *Pool) judge(m *member, why string) {
	healthy := m.health.healthy()
	if healthy == m.state.Healthy {
		return
	}
	m.state.Healthy = healthy
	if healthy {
		p.log.Info("endpoint is healthy", "endpoint", m.state.ID, "why", why)
	} else {
		p.log.Warn("endpoint is unhealthy", "endpoint", m.state.ID, "why", why)
	}
	p.publish()
}

// replace makes endpoints the whole pool. Run starts and stops the scrapes
// that follow from it. late says that those who are new were not there when
// the pool began. Under p.mu.
func (p *Pool) replace(endpoints []Endpoint, late bool) {
	keep := make(map[string]bool, len(endpoints))
	for _, e := range endpoints {
		keep[e.ID] = true
		old := p.members[e.ID]
		switch {
		case old == nil:
			p.join(e, late)
		case old.endpoint.URL != e.URL: // another engine under the same name
			p.leave(old)
			p.departed.take(e.ID)
			p.join(e, late)
		default:
			old.configure(e)
		}
	}
	for _, id := range sortedKeys(p.members) {
		if !keep[id] {
			p.leave(p.members[id])
		}
	}
	p.publish()
	select {
	case p.changed <- struct{}{}:
	default: // Run has yet to see an earlier change and will see this one with it
	}
}

// join puts an endpoint into the pool: under its former incarnation, where it
// was here before.
func (p *Pool) join(e Endpoint, late bool) {
	m := newMember(e)
	if life, ok := p.departed.take(e.ID); ok && life.url == e.URL {
		m.life = life
	} else {
		p.lives++
		m.life = lifeOf(e, p.lives)
	}
	m.state.Incarnation, m.state.Started = m.life.incarnation, m.life.startTime
	m.late = late
	p.members[e.ID] = m
	at, _ := p.place(e.ID)
	p.ordered = slices.Insert(p.ordered, at, m)
	if p.began {
		p.log.Info("endpoint joined", "endpoint", e.ID, "url", e.URL)
	}
}

func (p *Pool) leave(m *member) {
	m.stop()
	delete(p.members, m.endpoint.ID)
	if at, ok := p.place(m.endpoint.ID); ok {
		p.ordered = slices.Delete(p.ordered, at, at+1)
	}
	p.departed.put(m.endpoint.ID, m.life)
	p.log.Info("endpoint left", "endpoint", m.endpoint.ID)
}

// place is where an endpoint stands among the ordered, or would.
func (p *Pool) place(id string) (at int, found bool) {
	return slices.BinarySearchFunc(p.ordered, id, func(m *member, id string) int { return strings.Compare(m.state.ID, id) })
}

// publish makes a new snapshot of the members. Under p.mu. Every scrape of every
// endpoint ends here, so it is a copy and nothing else.
func (p *Pool) publish() {
	next := &Snapshot{Endpoints: make([]State, len(p.ordered))}
	if last := p.snapshot.Load(); last != nil {
		next.Epoch = last.Epoch + 1
	}
	for i, m := range p.ordered {
		next.Endpoints[i] = m.state
	}
	p.snapshot.Store(next)
}
