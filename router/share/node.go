package share

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/spillway-llm/spillway/internal/access"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/proto/gen/sharev1"
	"github.com/spillway-llm/spillway/router/route"
)

// Node is this router among the others. Make it with New and keep Run running.
type Node struct {
	config  Config
	router  *route.Router
	log     *slog.Logger
	metrics *metrics
	journal *journal
	life    uint64 // of this run, never 0
	proof   []byte
	ended   chan struct{} // closed when Run ends
	restore restoring
	whole   atomic.Bool // somebody has told all that is believed to be cached

	mu    sync.Mutex
	links map[string]*link // by address
	lives map[uint64]*link // who follows which run of a peer: a host may have several addresses
}

// New makes the node of a router, which tells it everything from then on.
func New(config Config, router *route.Router, log *slog.Logger, registerer prometheus.Registerer) (*Node, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	n := &Node{
		config: config, router: router, log: log,
		journal: newJournal(), life: rand.Uint64() | 1, proof: proof(config.Salt),
		ended: make(chan struct{}), links: map[string]*link{}, lives: map[uint64]*link{},
	}
	n.metrics = newMetrics(registerer, n)
	if config.Listen != "" {
		router.Tell(n.journal.tell)
	}
	return n, nil
}

// Run serves followers on l, which may be nil, and follows the peers until ctx is
// done.
func (n *Node) Run(ctx context.Context, l net.Listener) error {
	defer close(n.ended)
	work, ctx := errgroup.WithContext(ctx)
	if l != nil {
		server, err := n.server()
		if err != nil {
			return err
		}
		work.Go(func() error {
			if err := server.Serve(l); !errors.Is(err, grpc.ErrServerStopped) { // before it began
				return err
			}
			return nil
		})
		work.Go(func() error {
			<-ctx.Done()
			server.Stop()
			return nil
		})
	}
	work.Go(func() error { return n.restore.run(ctx, n) })
	work.Go(func() error { return n.keepLinks(ctx, work) })
	if err := work.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (n *Node) server() (*grpc.Server, error) {
	c, err := n.config.TLS.ServerConfig(false, n.log)
	if err != nil {
		return nil, fmt.Errorf("share_%w", err)
	}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(64 << 10), grpc.MaxConcurrentStreams(2 * mostPeers),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}
	if c != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(c)))
	}
	server := grpc.NewServer(options...)
	sharev1.RegisterSharingServer(server, service{node: n})
	return server, nil
}

// credentials are those for following a host.
func (n *Node) credentials(host string) (credentials.TransportCredentials, error) {
	c, err := n.config.TLS.ClientConfig(host)
	if err != nil {
		return nil, fmt.Errorf("share_%w", err)
	}
	if c == nil {
		return insecure.NewCredentials(), nil
	}
	return credentials.NewTLS(c), nil
}

// resolveEvery is how often names of peers are looked up.
const resolveEvery = 5 * time.Second

// keepLinks follows whoever the peers' names stand for.
func (n *Node) keepLinks(ctx context.Context, work *errgroup.Group) error {
	if len(n.config.Peers) == 0 {
		return nil
	}
	ticker := time.NewTicker(resolveEvery)
	defer ticker.Stop()
	for {
		n.keep(ctx, work, n.resolve(ctx))
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// place is one machine that a peer's name stands for.
type place struct{ address, host string }

// resolve looks up the peers. A name that can't be looked up now stands for what
// it stood for before.
func (n *Node) resolve(ctx context.Context) (places []place) {
	for _, peer := range n.config.Peers {
		host, port, err := net.SplitHostPort(peer)
		if err != nil {
			continue // Check has seen it
		}
		lookup, cancel := context.WithTimeout(ctx, 2*time.Second)
		found, err := net.DefaultResolver.LookupHost(lookup, host)
		cancel()
		if err != nil {
			n.log.Warn("a peer's name can't be looked up", "peer", peer, "error", err)
			n.mu.Lock()
			for _, l := range n.links {
				if l.place.host == host {
					places = append(places, l.place)
				}
			}
			n.mu.Unlock()
			continue
		}
		for _, ip := range found {
			places = append(places, place{net.JoinHostPort(ip, port), host})
		}
	}
	slices.SortFunc(places, func(a, b place) int { return compare(a.address, b.address) })
	places = slices.CompactFunc(places, func(a, b place) bool { return a.address == b.address })
	return places[:min(len(places), mostPeers)]
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// keep makes the links fit the places.
func (n *Node) keep(ctx context.Context, work *errgroup.Group, places []place) {
	n.mu.Lock()
	defer n.mu.Unlock()
	wanted := map[string]bool{}
	for _, p := range places {
		wanted[p.address] = true
		if n.links[p.address] != nil {
			continue
		}
		l := newLink(n, p)
		n.links[p.address] = l
		following, cancel := context.WithCancel(ctx)
		l.cancel = cancel
		work.Go(func() error { l.run(following); return nil })
	}
	for address, l := range n.links {
		if !wanted[address] {
			delete(n.links, address)
			l.cancel()
			n.log.Info("a peer is listed no more", "peer", address)
		}
	}
}

// claim reports whether l may follow that run of a peer, as no other link does:
// what is heard by two counts twice.
func (n *Node) claim(life uint64, l *link) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lives[life] == nil {
		n.lives[life] = l
	}
	return n.lives[life] == l
}

// release says that l follows nobody at present.
func (n *Node) release(l *link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.lives, func(_ uint64, by *link) bool { return by == l })
}

// Status is every peer as this router knows it, by address.
func (n *Node) Status() []route.PeerStatus {
	n.mu.Lock()
	links := make([]*link, 0, len(n.links))
	for _, l := range n.links {
		links = append(links, l)
	}
	n.mu.Unlock()
	slices.SortFunc(links, func(a, b *link) int { return compare(a.place.address, b.place.address) })
	all := make([]route.PeerStatus, 0, len(links))
	for _, l := range links {
		all = append(all, l.status(time.Now()))
	}
	return all
}

// oldest is how long ago the peer that was silent longest said its last word;
// NaN without peers, and where one has never said any.
func (n *Node) oldest() float64 {
	age := feature.Unknown
	for i, p := range n.Status() {
		if nobodyElse(p.State) {
			continue
		}
		if feature.IsUnknown(p.Age) {
			return feature.Unknown
		}
		if i == 0 || !(age >= float64(p.Age)) {
			age = float64(p.Age)
		}
	}
	return age
}

func (n *Node) count(state string) (count int) {
	for _, p := range n.Status() {
		if p.State == state {
			count++
		}
	}
	return count
}

// Loopback reports whether an address can only be reached from this machine.
func Loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// Warn says what is unsafe about how a router shares.
func (n *Node) Warn(at net.Addr) {
	if n.config.TLS.Mode == access.Off && !Loopback(at) {
		n.log.Warn(fmt.Sprintf("other machines can follow this router in plain text; router.share_tls %q or %q protects it", access.Server, access.Mutual), "share_listen", at.String())
	}
}
