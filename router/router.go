// Package router is the service that clients talk to. Run wires its parts: the
// pool of endpoints, the choke point, the front door and the second listener.
// The predictor and the store are handed in, so that a router runs without
// either.
package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/spillway-llm/spillway/internal/access"
	"github.com/spillway-llm/spillway/internal/tracing"
	"github.com/spillway-llm/spillway/router/admin"
	"github.com/spillway-llm/spillway/router/console"
	"github.com/spillway-llm/spillway/router/extproc"
	"github.com/spillway-llm/spillway/router/front"
	"github.com/spillway-llm/spillway/router/gateway"
	"github.com/spillway-llm/spillway/router/handover"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
	"github.com/spillway-llm/spillway/router/share"
)

// Config is what a router is made of.
type Config struct {
	Listen string // host:port of the front door; port 0 means any
	Picker string // host:port of the front door of proxies; empty: there is none
	Admin  string // host:port of the second listener; empty: there is none

	// DrainDelay is how long the front door stays open after Run was told to
	// end, while /readyz says that the router is on its way out: who sends
	// requests here needs some time to hear of it.
	DrainDelay time.Duration

	// DrainTimeout is how long requests in flight may go on after the front
	// door closed. Those still running then are cut off and recorded as lost.
	DrainTimeout time.Duration

	// Handover is the path of a Unix socket over which the next router on this
	// machine takes over the listeners, as this one does from the one before it,
	// once it has an endpoint that may serve. The one before then ends. Empty: no
	// router may follow while this one runs.
	Handover string

	Pool    pool.Config
	Route   route.Config
	Gateway gateway.Config
	ExtProc extproc.Config
	Share   share.Config // with other routers; Listen is tried by Run like the other addresses

	Forecaster route.Forecaster // nil: none; every LLM stays cold
	Recorder   route.Recorder

	Store console.Store // of the second listener's pages; nil: they do without
	Drill bool          // whether those have a button that lets the fallback decide

	Guard  *access.Guard   // of the second listener; nil: anyone may use it
	Tracer *tracing.Tracer // of all parts; nil: no spans are made

	Log     *slog.Logger
	Metrics *prometheus.Registry // gets the metrics of all parts and is shown by the second listener

	// Ready, if not nil, is called once, when all listeners accept.
	Ready func(Serving)
}

// Serving is a router that serves.
type Serving struct {
	Listen net.Addr
	Picker net.Addr // nil without a front door of proxies
	Admin  net.Addr // nil without a second listener
	Share  net.Addr // nil where no other router may follow

	// OldestOpen is when the decision of the oldest request was made that has
	// not ended; false when none is open.
	OldestOpen func() (decidedAt time.Time, ok bool)
}

// DefaultDrainTimeout is the documented default. With 5 s for what is cut off and
// 5 s for the last rows it is the 30 s that Kubernetes gives a pod to end; a drain
// delay wants as much more.
const DefaultDrainTimeout = 20 * time.Second

// Limits of the listeners. Bodies have their own in gateway.Config.
const (
	headerTimeout = 10 * time.Second // to send all headers
	takeoverWait  = 30 * time.Second // for an endpoint that may serve, before another router's place is taken
	idleTimeout   = 2 * time.Minute  // between two requests of a connection
	headerBytes   = 64 << 10
	endTimeout    = 5 * time.Second        // for requests that were cut off to record it
	greetTimeout  = 200 * time.Millisecond // for the handshake of a proxy's connection
)

// Check reports the first setting that can't work, by its key. Addresses are
// tried by Run.
func (c *Config) Check() error {
	if c.Listen == "" {
		return errors.New("listen: is empty; want host:port, for example 127.0.0.1:8080")
	}
	if c.DrainDelay < 0 {
		return fmt.Errorf("drain_delay: %v; it must not be negative", c.DrainDelay)
	}
	if c.DrainTimeout < 0 {
		return fmt.Errorf("drain_timeout: %v; it must not be negative", c.DrainTimeout)
	}
	if err := c.Route.Check(); err != nil {
		return err
	}
	if err := c.Gateway.Check(); err != nil {
		return err
	}
	if c.Share.Salted() {
		if err := c.Share.Check(); err != nil {
			return err
		}
	}
	if c.Picker == "" {
		return nil
	}
	return c.ExtProc.Check()
}

// Run serves until ctx is done or another router took over, then drains: it says
// so, stops accepting, lets the requests in flight end, and returns nil. The
// recorder has all rows by then; flushing it is the caller's.
//
// Errors name the key of the setting that can't work.
func Run(ctx context.Context, c Config) error {
	if err := c.Check(); err != nil {
		return err
	}
	c.Route.Tracer, c.Gateway.Tracer, c.ExtProc.Tracer = c.Tracer, c.Tracer, c.Tracer
	if c.Gateway.Transport == nil {
		transport := gateway.Transport(c.Gateway.Timeouts.Connect)
		defer transport.CloseIdleConnections()
		c.Gateway.Transport = transport
	}
	before, err := handover.Take(ctx, c.Handover)
	if err != nil && ctx.Err() != nil {
		return nil // told to end before it began
	}
	if err != nil {
		return fmt.Errorf("handover: %w", err)
	}
	defer before.Close()
	open, err := c.listen(before)
	if err != nil {
		return err
	}
	defer open.close()
	endpoints, err := pool.New(c.Pool, c.Metrics, c.Log)
	if err != nil {
		return err
	}
	recent := console.NewRing(c.Recorder)
	choke, err := route.New(c.Route, endpoints, c.Forecaster, recent, c.Log, c.Metrics)
	if err != nil {
		return err
	}
	var others *share.Node // nil: this router is on its own
	if c.Share.Salted() {
		if others, err = share.New(c.Share, choke, c.Log, c.Metrics); err != nil {
			return err
		}
		others.Load()
	}
	status := func() route.Status {
		s := choke.Status()
		s.Sources = endpoints.Sources()
		if others != nil {
			s.Peers = others.Status()
		}
		return s
	}
	save := func() {
		if others == nil {
			return
		}
		if err := others.Save(); err != nil {
			c.Log.Warn("what is believed to be cached was not written", "error", err)
		}
	}
	s, err := newServers(&c, choke, status, recent)
	if err != nil {
		return err
	}

	// The parts outlive ctx: requests that are draining need them.
	parts, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	work, parts := errgroup.WithContext(parts)
	work.Go(func() error { return named("endpoints", endpoints.Run(parts)) })
	work.Go(func() error { return named("route", choke.Run(parts)) })
	after, err := newSuccession(ctx, parts, &c, before, s.picks)
	if err != nil {
		end()
		return errors.Join(named("handover", err), work.Wait())
	}
	work.Go(func() error {
		defer close(s.shut)
		err := s.front.Serve(open.front)
		c.Log.Info("router accepts no more requests", "drain_timeout", c.DrainTimeout)
		return named("listen", err)
	})
	if open.side != nil {
		work.Go(func() error { return named("admin", s.side.Serve(c.Guard.Listener(open.side))) })
	}
	if open.picker != nil {
		work.Go(func() error { return named("extproc_listen", s.picker.Serve(outlasting(open.picker))) })
	}
	if others != nil {
		work.Go(func() error { return named("share", others.Run(parts, outlasting(open.share))) })
	}
	work.Go(func() error { after.run(open.list(), save); return nil })
	work.Go(func() error {
		defer end()
		select {
		case <-ctx.Done():
			s.announceEnd(parts, after.came, c.DrainDelay)
		case <-after.came:
		case <-parts.Done(): // one of them failed
		}
		if after.withdraw() {
			s.giveWay()
			open.close()
		} else {
			s.farewell()
			open.closeDoors()
		}
		s.drain(c.DrainTimeout)
		save()
		return nil
	})
	if open.share != nil {
		others.Warn(open.share.Addr())
	}
	s.announce(&c, open, choke)
	return work.Wait()
}

// named adds to a part's error whose it is. Being told to end is none.
func named(part string, err error) error {
	if err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) || errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("%s: %w", part, err)
}

// servers are what serves them.
type servers struct {
	front, side *http.Server
	picker      *extproc.Picker // nil: there is none
	admin       *admin.Admin
	clients     connections   // of front
	keepers     connections   // of side
	shut        chan struct{} // closed when front accepts no more
	status      func() route.Status
	stop        context.CancelCauseFunc // ends the requests in flight
	log         *slog.Logger
}

// picks reports whether there is an endpoint to send a request to.
func (s *servers) picks() bool {
	for _, e := range s.status().Endpoints {
		if e.Healthy && !e.Draining {
			return true
		}
	}
	return false
}

func newServers(c *Config, choke *route.Router, status func() route.Status, recent *console.Ring) (*servers, error) {
	pages := console.Config{Status: status, History: choke.History, Recent: recent, Store: c.Store}
	if c.Drill {
		pages.Drill = choke.Drill
	}
	s := &servers{admin: admin.New(status, c.Metrics, console.New(pages)), shut: make(chan struct{}), status: status, log: c.Log}
	if c.Picker != "" {
		var err error
		if s.picker, err = extproc.New(c.ExtProc, choke, c.Log, c.Metrics); err != nil {
			return nil, err
		}
	}
	var base context.Context
	base, s.stop = context.WithCancelCause(context.Background())
	s.front = newServer(gateway.New(c.Gateway, choke, c.Log, c.Metrics), c.Log)
	s.front.BaseContext = func(net.Listener) context.Context { return base }
	s.clients.watch(s.front)
	s.side = newServer(c.Guard.Handler(s.admin), c.Log)
	s.keepers.watch(s.side)
	return s, nil
}

func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// announce says where the router listens.
func (s *servers) announce(c *Config, l listeners, choke *route.Router) {
	at := Serving{Listen: l.front.Addr(), OldestOpen: choke.OldestOpen}
	line := []any{"listen", at.Listen.String(), "policy", c.Route.Policy, "mode", c.Route.Mode}
	if c.Route.Mode == route.ModeSwitchback {
		line = append(line, "experiment", c.Route.Experiment.Design.String())
	}
	if l.picker != nil {
		at.Picker = l.picker.Addr()
		line = append(line, "extproc", at.Picker.String(), "extproc_tls", c.ExtProc.TLS.Mode)
	}
	if l.share != nil {
		at.Share = l.share.Addr()
		line = append(line, "share_listen", at.Share.String())
	}
	if l.side != nil {
		at.Admin = l.side.Addr()
		line = append(line, "admin", at.Admin.String())
		c.Guard.Warn(at.Admin, "access.admin_tls and access.admin_token_file", s.log)
	}
	s.log.Info("router serves", line...)
	if c.Ready != nil {
		c.Ready(at)
	}
}

// announceEnd says to whoever asks that the router is on its way out, and
// leaves the world the delay to notice, unless another router takes over or a part
// fails meanwhile.
func (s *servers) announceEnd(parts context.Context, succeeded <-chan struct{}, delay time.Duration) {
	s.farewell()
	if delay <= 0 {
		return
	}
	s.log.Info("router will accept no more requests", "drain_delay", delay)
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-succeeded:
	case <-parts.Done():
	}
}

// farewell makes health say that no more requests are welcome, and clients come
// back on other connections.
func (s *servers) farewell() {
	s.admin.Drain()
	if s.picker != nil {
		s.picker.Drain()
	}
	s.clients.farewell()
}

// giveWay makes clients, and those who look after the router, come back on other
// connections, which another router has: at these addresses requests are welcome.
func (s *servers) giveWay() {
	s.clients.farewell()
	s.keepers.farewell()
}

// drain ends the servers, whose front doors accept no more: those when their
// requests have ended, or timeout has passed, then the second listener, which shows
// the draining.
func (s *servers) drain(timeout time.Duration) {
	if !s.shutDown(timeout) {
		s.log.Warn("requests in flight are cut off", "drain_timeout", timeout)
		s.stop(front.ErrStopping)
		s.clients.cut()
		if s.picker != nil {
			s.picker.Close()
		}
		s.shutDown(endTimeout)
		s.front.Close()
	}
	s.stop(nil)
	s.side.Close()
	s.log.Info("router ends")
}

// shutDown ends the front doors and reports whether all requests ended within the
// time.
func (s *servers) shutDown(within time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var doors errgroup.Group
	doors.Go(func() error {
		<-s.shut // the last connection is known
		s.clients.end(ctx)
		return s.front.Shutdown(ctx)
	})
	if s.picker != nil {
		doors.Go(func() error {
			// What was accepted last is still greeting: told to go before that has
			// ended, a proxy would take the router for broken.
			greeting := time.NewTimer(greetTimeout)
			defer greeting.Stop()
			select {
			case <-greeting.C:
			case <-ctx.Done():
			}
			return s.picker.Shutdown(ctx)
		})
	}
	return doors.Wait() == nil
}
