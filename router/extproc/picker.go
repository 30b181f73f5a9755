package extproc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/tap"

	"github.com/spillway-llm/spillway/internal/openai"
	"github.com/spillway-llm/spillway/internal/socket"
	"github.com/spillway-llm/spillway/router/front"
	"github.com/spillway-llm/spillway/router/route"
)

// Picker is the gRPC server that proxies ask. Create it with New; Serve serves.
type Picker struct {
	config   Config
	router   *route.Router
	room     *front.Room
	log      *slog.Logger
	metrics  *metrics
	server   *grpc.Server
	watch    watch
	draining atomic.Bool
	odd      sync.Once // the first proxy of a wrong mode is logged
	scanned  sync.Pool // of *openai.Request
}

const (
	// Fixed windows: gRPC would else measure the path with pings. One stream
	// is given room for a long prompt, a connection for many streams.
	streamWindow = 1 << 20
	connWindow   = 64 << 20

	// Goroutines that serve one stream after the other: their stacks have
	// grown. Beyond them a stream has one of its own.
	workers = 64

	bufferSize = 128 << 10 // of reading from and writing to a connection

	mostOverhead = 1 << 20          // bytes of a message beside its body: headers and metadata
	sweepEvery   = time.Second      // for silent streams
	pingsApart   = 10 * time.Second // proxies may not ping more often
)

// New makes a picker in front of r. Metrics go to reg, which may be nil.
//
// Errors name the key of the setting that can't work.
func New(config Config, r *route.Router, log *slog.Logger, reg prometheus.Registerer) (*Picker, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	protection, err := config.TLS.config(log)
	if err != nil {
		return nil, err
	}
	p := &Picker{
		config:  config,
		router:  r,
		room:    front.NewRoom(config.MaxHeld),
		log:     log,
		metrics: newMetrics(reg),
		watch:   watch{streams: map[*watched]struct{}{}},
		scanned: sync.Pool{New: func() any { return new(openai.Request) }},
	}
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(wire),
		grpc.InTapHandle(enter),
		grpc.MaxRecvMsgSize(int(min(config.MaxBody+mostOverhead, math.MaxInt32))),
		grpc.MaxConcurrentStreams(uint32(min(int64(config.MaxStreams)+1, math.MaxUint32))), // so that the one too many is told why
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.ReadBufferSize(bufferSize),
		grpc.WriteBufferSize(bufferSize),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsApart, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true),
		grpc.NumStreamWorkers(workers),
	}
	if protection != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(protection)))
	}
	p.server = grpc.NewServer(options...)
	p.server.RegisterService(&service, p)
	grpc_health_v1.RegisterHealthServer(p.server, &healthServer{ready: p.ready})
	return p, nil
}

// service is envoy.service.ext_proc.v3.ExternalProcessor, received into
// messages of this package.
var service = grpc.ServiceDesc{
	ServiceName: serviceProcess,
	HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{{
		StreamName: "Process",
		Handler: func(p any, ss grpc.ServerStream) error {
			return p.(*Picker).process(ss)
		},
		ServerStreams: true,
		ClientStreams: true,
	}},
	Metadata: "envoy/service/ext_proc/v3/external_processor.proto",
}

// cancelKey is where a stream's context holds what ends it from outside.
type cancelKey struct{}

// enter gives every stream a context that can be ended from outside: its
// handler waits for messages and for nothing else.
func enter(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	return context.WithValue(ctx, cancelKey{}, cancel), nil
}

// Serve serves on l until Shutdown or Close, which is no error.
func (p *Picker) Serve(l net.Listener) error {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { p.watch.run(ctx, sweepEvery) })
	if err := p.server.Serve(socket.QuietListener(l)); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve proxies: %w", err)
	}
	return nil
}

// Drain makes health say that the router is on its way out, so that proxies
// ask another one.
func (p *Picker) Drain() { p.draining.Store(true) }

// Shutdown accepts no more streams and waits until those that are open have
// ended. When ctx ends before that it returns its error; Close is next.
func (p *Picker) Shutdown(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.server.GracefulStop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends the streams that are open, which are recorded as lost, and
// returns when that is done.
func (p *Picker) Close() {
	p.watch.end(front.ErrStopping)
	p.server.Stop()
}

// ready reports whether requests are welcome.
func (p *Picker) ready() bool {
	if p.draining.Load() {
		return false
	}
	for _, e := range p.router.Status().Endpoints {
		if e.Healthy && !e.Draining {
			return true
		}
	}
	return false
}
