package predictor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/spillway-llm/spillway/internal/socket"
)

const (
	drainTimeout  = 2 * time.Second  // for the calls under way when a server ends
	keepaliveTime = 10 * time.Second // a client's silence before it asks whether anyone is there
	greetWithin   = 10 * time.Second // for a connection to become one of gRPC
	maxStreams    = 1024             // calls at once on one connection
	maxOverhead   = 64 << 10         // bytes of a message beside its vectors

	// Fixed windows, wide enough for whole messages: gRPC would else measure
	// the path with a ping and its answer for many a call.
	streamWindow = 4 << 20
	connWindow   = 16 << 20
)

// Serve answers at addr ("unix:///path/of.sock" or "host:port") until ctx
// ends, which is not an error; calls under way then have 2 s to end. The
// socket file of a server that died is replaced, that of a living one is an
// error.
func (s *Server) Serve(ctx context.Context, addr string) error {
	listener, err := listen(ctx, addr)
	if err != nil {
		return err
	}
	options := append(s.config.Guard.ServerOptions(), s.config.Tracer.ServerOptions()...)
	server := grpc.NewServer(append(options,
		grpc.MaxRecvMsgSize(s.largestMessage()),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.ForceServerCodecV2(wire),
		grpc.NumStreamWorkers(uint32(s.config.Concurrency)),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(greetWithin),
	)...)
	s.register(server)

	drained := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(drained)
		hard := time.AfterFunc(drainTimeout, server.Stop)
		defer hard.Stop()
		server.GracefulStop()
	})
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok {
		addr = tcp.String() // port 0 is any
	}
	s.log.Info("predictor serves", "addr", addr)
	s.config.Guard.Warn(listener.Addr(), "access.predictor_tls and access.predictor_token_file", s.log)
	if s.config.Guard != nil { // who speaks frames would pass it by
		listener = socket.QuietListener(listener)
	} else {
		inside, leave := context.WithCancel(ctx)
		door := &doorman{Listener: listener, server: s, grpc: make(chan net.Conn), ctx: inside}
		var accepting sync.WaitGroup
		accepting.Go(door.run)
		defer accepting.Wait()
		defer leave()
		listener = door
	}
	err = server.Serve(listener)
	if stop() { // it ended by itself
		server.Stop()
		return fmt.Errorf("serve %s: %w", addr, err)
	}
	<-drained
	return nil
}

// split returns the network and address of addr as package net wants them.
func split(addr string) (network, address string, err error) {
	if path, ok := strings.CutPrefix(addr, "unix://"); ok {
		if !strings.HasPrefix(path, "/") {
			return "", "", fmt.Errorf("predictor address %q: want unix:///path with an absolute path", addr)
		}
		return "unix", path, nil
	}
	if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
		return "", "", fmt.Errorf("predictor address %q: want unix:///path or host:port", addr)
	}
	return "tcp", addr, nil
}

func listen(ctx context.Context, addr string) (net.Listener, error) {
	network, address, err := split(addr)
	if err != nil {
		return nil, err
	}
	if network == "unix" {
		if err := removeStale(ctx, address); err != nil {
			return nil, err
		}
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, network, address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("predictor address %s is in use by another process: %w", addr, err)
	}
	if err != nil {
		return nil, fmt.Errorf("predictor address %s: %w", addr, err)
	}
	return listener, nil
}

// removeStale removes the socket file that a dead server left at path.
func removeStale(ctx context.Context, path string) error {
	file, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("predictor socket: %w", err)
	}
	if file.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("predictor socket %s: a file that is no socket stands there", path)
	}
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err == nil {
		conn.Close()
		return fmt.Errorf("predictor socket %s is in use by another process", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("predictor socket %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("predictor socket: %w", err)
	}
	return nil
}
