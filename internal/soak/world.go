package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/fleet/server"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router"
	"github.com/spillway-llm/spillway/router/extproc"
	"github.com/spillway-llm/spillway/router/extproc/extproctest"
	"github.com/spillway-llm/spillway/router/gateway"
	"github.com/spillway-llm/spillway/router/pool"
	"github.com/spillway-llm/spillway/router/route"
)

const (
	llm = "soaked"
	// engines are a small one, its cache soon full, and ten times as fast.
	engineProfile = "llama-3.1-8b-rtx4090-vllm-x0.1"
)

// world is everything that runs beside the clients.
type world struct {
	folder string // what it writes; removed with it
	wire   *wire
	reader *featurestore.Store // past the wire
	writer *featurestore.Writer
	rows   *rows
	fleet  *server.Server
	file   string // of endpoints
	at     router.Serving
	admin  *http.Client
	crowd  *crowd
	began  time.Time

	end func() error
}

// raise starts the world on a migrated database.
func raise(ctx context.Context, o options, database string) (w *world, err error) {
	w = &world{began: time.Now().Add(-time.Minute)}
	var undo []func() error
	w.end = func() error {
		var errs []error
		for i := len(undo) - 1; i >= 0; i-- {
			errs = append(errs, undo[i]())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.end())
		}
	}()
	if w.folder, err = os.MkdirTemp("", "spillway-soak-"); err != nil {
		return w, err
	}
	undo = append(undo, func() error { return os.RemoveAll(w.folder) })
	if w.wire, err = newWire(w.folder, database); err != nil {
		return w, err
	}
	undo = append(undo, func() error { w.wire.close(); return nil })
	if w.reader, err = featurestore.Open(ctx, database, featurestore.Options{MaxConns: 2}); err != nil {
		return w, err
	}
	undo = append(undo, func() error { w.reader.Close(); return nil })
	store, err := featurestore.Open(ctx, w.wire.url, featurestore.Options{Lazy: true})
	if err != nil {
		return w, err
	}
	undo = append(undo, func() error { store.Close(); return nil })
	w.writer, err = featurestore.NewWriter(store, featurestore.WriterConfig{SpoolDir: filepath.Join(w.folder, "spool")})
	if err != nil {
		return w, err
	}
	w.rows = newRows(w.writer)
	undo = append(undo, started(ctx, w.writer.Run))

	profile, err := physics.Named(engineProfile)
	if err != nil {
		return w, err
	}
	if w.fleet, err = server.New(server.Config{Groups: []server.Group{{Profile: profile, Count: o.endpoints}}, Model: llm, Seed: o.seed}); err != nil {
		return w, err
	}
	undo = append(undo, started(ctx, w.fleet.Run))
	w.file = filepath.Join(w.folder, "endpoints.yaml")
	if err := w.list(w.fleet.URLs()); err != nil {
		return w, err
	}
	stop, err := w.startRouter(ctx, profile)
	if err != nil {
		return w, err
	}
	undo = append(undo, stop)
	w.admin = &http.Client{Transport: &http.Transport{}}
	proxy, err := extproctest.Dial(w.at.Picker.String(), nil)
	if err != nil {
		return w, err
	}
	undo = append(undo, proxy.Close)
	w.crowd = &crowd{"http://" + w.at.Listen.String(), &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.clients}}, proxy}
	undo = append(undo, func() error { w.hangUp(); return nil })
	return w, nil
}

// started runs a part and returns what ends it.
func started(ctx context.Context, run func(context.Context) error) (end func() error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var part errgroup.Group
	part.Go(func() error { return run(ctx) })
	return func() error {
		cancel()
		return part.Wait()
	}
}

// startRouter runs a router as the command does, with shorter times.
func (w *world) startRouter(ctx context.Context, profile physics.Profile) (end func() error, err error) {
	ready := make(chan router.Serving, 1)
	c := router.Config{
		Listen: "127.0.0.1:0", Picker: "127.0.0.1:0", Admin: "127.0.0.1:0", DrainTimeout: 10 * time.Second,
		Pool:       pool.Config{File: w.file, Interval: 100 * time.Millisecond, Timeout: time.Second, MaxBackoff: 300 * time.Millisecond, TrafficHold: 300 * time.Millisecond},
		Route:      route.Defaults(),
		Gateway:    gateway.Defaults(),
		ExtProc:    extproc.Defaults(),
		Forecaster: moody{}, Recorder: w.rows,
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		Ready: func(at router.Serving) { ready <- at },
	}
	c.Route.Name, c.Route.DefaultProfile = "soak", profile
	c.Route.ForecastDeadline, c.Route.Limits.ReturnHold = 20*time.Millisecond, 500*time.Millisecond
	c.Gateway.Timeouts.FirstByte, c.Gateway.Timeouts.Answer, c.Gateway.Timeouts.Idle = 2*time.Second, 4*time.Second, 2*time.Second
	c.ExtProc.TLS.Mode = extproc.TLSOff
	c.ExtProc.Timeouts.FirstByte, c.ExtProc.Timeouts.Answer, c.ExtProc.Timeouts.Idle = 2*time.Second, 4*time.Second, 2*time.Second
	failed := make(chan error, 1)
	stop := started(ctx, func(ctx context.Context) error {
		err := router.Run(ctx, c)
		failed <- err
		return err
	})
	select {
	case w.at = <-ready:
		return stop, nil
	case err := <-failed:
		return stop, fmt.Errorf("the router did not start: %w", err)
	}
}

// list writes the endpoints file anew.
func (w *world) list(urls []string) error {
	var text []byte
	for _, url := range urls {
		text = fmt.Appendf(text, "- {url: %q, llms: [%s]}\n", url, llm)
	}
	next := w.file + ".next"
	if err := os.WriteFile(next, text, 0o644); err != nil {
		return err
	}
	return os.Rename(next, w.file)
}

// hangUp closes the connections that clients keep.
func (w *world) hangUp() {
	w.crowd.http.CloseIdleConnections()
	w.admin.CloseIdleConnections()
}
