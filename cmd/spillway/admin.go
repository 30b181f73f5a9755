package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/spillway-llm/spillway/internal/access"
)

// errNotReady is why a process is not ready.
type errNotReady string

func (e errNotReady) Error() string { return string(e) }

// serveAdmin serves metrics and health of the processes that have no status
// page of their own, until ctx ends. key names the setting in errors; an empty
// address serves nothing. ready is what /readyz says, beside "ready" when there
// is no error.
func serveAdmin(ctx context.Context, key, address string, guard *access.Guard, reg *prometheus.Registry, log *slog.Logger, ready func() (says string, err error)) error {
	if address == "" {
		<-ctx.Done()
		return nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("%s: can't listen on %s: %w", key, address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		says, err := ready()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
		if says != "" {
			fmt.Fprintln(w, says)
		}
	})
	log.Info("metrics and health are served", "admin", listener.Addr().String())
	guard.Warn(listener.Addr(), "access.admin_tls and access.admin_token_file", log)
	server := &http.Server{
		Handler: guard.Handler(mux), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), // of clients that speak no TLS
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(guard.Listener(listener)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}
