package share_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/test/bufconn"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
	"github.com/spillway-llm/spillway/router/share"
)

const llm = "qwen3-32b"

var salt = []byte("a salt of more than sixteen bytes")

var unknown = feature.Seconds(feature.Unknown)

// network carries streams inside the process. It can be cut to an address.
type network struct {
	mu        sync.Mutex
	listeners map[string]*bufconn.Listener
	cut       map[string]bool
	conns     map[string][]net.Conn
}

func newNetwork() *network {
	return &network{listeners: map[string]*bufconn.Listener{}, cut: map[string]bool{}, conns: map[string][]net.Conn{}}
}

func (n *network) listen(address string) *bufconn.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := bufconn.Listen(1 << 20)
	n.listeners[address] = l
	return l
}

func (n *network) dial(ctx context.Context, address string) (net.Conn, error) {
	n.mu.Lock()
	l, cut := n.listeners[address], n.cut[address]
	n.mu.Unlock()
	if l == nil || cut {
		return nil, fmt.Errorf("%s can't be reached", address)
	}
	c, err := l.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns[address] = append(n.conns[address], c)
	return c, nil
}

// alias lets another address lead to a router too.
func (n *network) alias(number, other int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[address(other)] = n.listeners[address(number)]
}

// sever resets every connection to an address and lets nobody reach it until it
// is mended.
func (n *network) sever(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[address] = true
	for _, c := range n.conns[address] {
		c.Close()
	}
	n.conns[address] = nil
}

func (n *network) mend(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[address] = false
}

// fleet is the pool of one router: the same endpoints, numbered by itself.
type fleet struct {
	mu       sync.Mutex
	snapshot *pool.Snapshot
}

func newFleet(first uint64, ids ...string) *fleet {
	f := &fleet{snapshot: &pool.Snapshot{Epoch: 1}}
	for i, id := range ids {
		f.snapshot.Endpoints = append(f.snapshot.Endpoints, pool.State{
			ID: id, URL: "http://" + id, LLMs: []string{llm}, Incarnation: first + uint64(i), Started: 1000, Healthy: true,
			ScrapedAt: time.Now(), KVCapacityTokens: 1 << 18, BlockTokens: 16, MaxNumSeqs: 256,
		})
	}
	return f
}

func (f *fleet) Snapshot() *pool.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snapshot
}
func (f *fleet) ReportFailure(string) {}
func (f *fleet) ReportSuccess(string) {}

// change publishes a snapshot in which edit was done to one endpoint.
func (f *fleet) change(id string, edit func(*pool.State)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := &pool.Snapshot{Epoch: f.snapshot.Epoch + 1, Endpoints: slices.Clone(f.snapshot.Endpoints)}
	for i := range next.Endpoints {
		if next.Endpoints[i].ID == id {
			edit(&next.Endpoints[i])
		}
	}
	f.snapshot = next
}

// restart begins another life of an endpoint.
func (f *fleet) restart(id string) {
	f.change(id, func(e *pool.State) { e.Incarnation += 1000; e.Started += 50 })
}

type discard struct{}

func (discard) RecordDecision(feature.Decision) {}
func (discard) RecordOutcome(feature.Outcome)   {}

// lines keeps what was logged.
type lines struct {
	mu  *sync.Mutex
	all *[]string
	slog.Handler
}

func (l lines) Enabled(context.Context, slog.Level) bool { return true }
func (l lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	*l.all = append(*l.all, text)
	return nil
}

// member is one router among others.
type member struct {
	t       *testing.T
	address string
	fleet   *fleet
	router  *route.Router
	node    *share.Node
	metrics *prometheus.Registry
	log     lines
	stop    func()
}

// network address of a router by its number.
func address(i int) string { return fmt.Sprintf("10.0.0.%d:8084", i) }

// join begins a router that follows all those listed.
func join(t *testing.T, n *network, number int, f *fleet, edit func(*share.Config), peers ...int) *member {
	t.Helper()
	p, err := physics.Named("qwen3-32b-h100-tp2-routing")
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	m := &member{t: t, address: address(number), fleet: f, metrics: prometheus.NewRegistry(), log: lines{&sync.Mutex{}, &kept, slog.DiscardHandler}}
	c := share.Defaults()
	c.Router, c.Listen, c.Salt, c.Dial = fmt.Sprint("r", number), m.address, salt, n.dial
	for _, i := range peers {
		c.Peers = append(c.Peers, address(i))
	}
	if edit != nil {
		edit(&c)
	}
	rc := route.Defaults()
	rc.Name, rc.DefaultProfile, rc.Policy, rc.Fallback, rc.Salt = c.Router, p, policy.CombinedLoad, policy.CombinedLoad, share.HashSalt(c.Salt)
	m.router, err = route.New(rc, f, nil, discard{}, slog.New(m.log), m.metrics)
	if err != nil {
		t.Fatal(err)
	}
	m.node, err = share.New(c, m.router, slog.New(m.log), m.metrics)
	if err != nil {
		t.Fatal(err)
	}
	m.node.Load()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	l := n.listen(m.address)
	running.Go(func() {
		if err := m.node.Run(ctx, l); err != nil {
			t.Errorf("%s: %v", c.Router, err)
		}
	})
	running.Go(func() { m.router.Run(ctx) })
	m.stop = func() { cancel(); running.Wait() }
	t.Cleanup(m.stop)
	return m
}

// begin sends a request.
func (m *member) begin(text string) *route.Ticket {
	m.t.Helper()
	q := &route.Query{
		LLM: llm, PromptBytes: len(text), MaxOutputTokens: 100, Streaming: true, SLOTTFT: unknown, SLOTPOT: unknown,
		Prompt: func(yield func(route.Piece) bool) { yield(route.Piece{Bytes: []byte(text)}) },
	}
	ticket, err := m.router.Begin(context.Background(), q)
	if err != nil {
		m.t.Fatal(err)
	}
	ticket.Sent(time.Now())
	return ticket
}

func end(ticket *route.Ticket) {
	ticket.End(route.End{
		Status: feature.OK, HTTPStatus: 200, TTFT: 0.1, TPOT: 0.02, E2E: 1,
		PromptTokens: feature.Unknown, OutputTokens: 50, CachedTokens: feature.Unknown,
	})
}

// counts are the requests of this router and of others at an endpoint.
func (m *member) counts(id string) (own, elsewhere int) {
	for _, e := range m.router.Status().Endpoints {
		if e.ID == id {
			return int(e.InFlight), int(e.Elsewhere)
		}
	}
	m.t.Fatalf("no endpoint %s", id)
	return 0, 0
}

func (m *member) totals() (own, elsewhere int) {
	for _, e := range m.router.Status().Endpoints {
		own, elsewhere = own+int(e.InFlight), elsewhere+int(e.Elsewhere)
	}
	return own, elsewhere
}

func (m *member) peer(i int) route.PeerStatus {
	for _, p := range m.node.Status() {
		if p.Address == address(i) {
			return p
		}
	}
	return route.PeerStatus{}
}

// logged reports whether a line was logged with a text in it.
func (m *member) logged(text string) bool {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	return slices.ContainsFunc(*m.log.all, func(line string) bool { return strings.Contains(line, text) })
}

// metric is the sum of a counter over its labels, of those with a value in them.
func (m *member) metric(name string, label ...string) float64 {
	families, err := m.metrics.Gather()
	if err != nil {
		m.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, x := range f.GetMetric() {
			values := make([]string, 0, 2)
			for _, l := range x.GetLabel() {
				values = append(values, l.GetValue())
			}
			if !slices.ContainsFunc(label, func(want string) bool { return !slices.Contains(values, want) }) {
				sum += x.GetCounter().GetValue() + x.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// a prompt of many blocks that nothing else begins with.
func prompt(name string) string { return strings.Repeat("the "+name+" prompt. ", 2000) }

func file(t *testing.T) string { return filepath.Join(t.TempDir(), "snapshot") }
