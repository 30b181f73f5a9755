package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/telemetry"
	"github.com/spillway-llm/spillway/predictor"
	"github.com/spillway-llm/spillway/router"
	"github.com/spillway-llm/spillway/router/extproc"
	"github.com/spillway-llm/spillway/router/gateway"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/pool"
)

func routerCommand() *cobra.Command {
	flags := configFlags{also: (*Config).routable}
	cmd := &cobra.Command{
		Use:   "router",
		Short: "Route OpenAI requests to endpoints",
		Long: `Route OpenAI-compatible requests to the endpoints of the configuration, of a
watched file, or found in Kubernetes or DNS. Decisions and outcomes go to the
store at DATABASE_URL; while it is away they wait on disk. The console, metrics
and health are on the admin listener. SIGTERM drains: requests in flight end, new
ones are not accepted. With router.handover a second router takes the listeners over
from the first, which then ends, and no request is lost.`,
		Example: `  DATABASE_URL=postgres://... spillway router --config spillway.yaml
  spillway router --config spillway.yaml --check-config
  curl localhost:8080/v1/chat/completions -d '{"model":"qwen3-32b","messages":[{"role":"user","content":"hi"}]}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, log, done, err := flags.load(cmd)
			if err != nil || done {
				return err
			}
			return runRouter(cmd.Context(), &c, log)
		},
	}
	flags.register(cmd)
	return cmd
}

// routable reports what a router needs and a configuration may lack.
func (c *Config) routable() error {
	if len(c.Router.Endpoints) == 0 && c.Router.EndpointsFile == "" && c.Router.Discovery.empty() {
		return errors.New("router.endpoints: is empty, and router.endpoints_file and router.discovery too; list at least one endpoint in the file that --config names")
	}
	if err := c.Access.asked(c.Router.Admin); err != nil {
		return err
	}
	if !policy.Forecasting(c.Router.Policy) || c.Predictor.InProcess {
		return nil // it asks none
	}
	return c.Access.needless("router.forecast.address", c.Router.Forecast.Address)
}

// router is the router's configuration as package router wants it, checked as
// far as it can be without opening anything.
func (c *Config) router() (router.Config, error) {
	routeConfig, err := c.route()
	if err != nil {
		return router.Config{}, err
	}
	g := gateway.Defaults()
	g.MaxBody, g.AskUsage = c.Router.MaxBodyBytes, c.Router.AskUsage
	g.MaxRequests, g.MaxOfClient, g.MaxHeld = c.Router.MaxRequests, c.Router.MaxOfClient, c.Router.MaxHeldBytes
	g.Timeouts.FirstByte, g.Timeouts.Answer, g.Timeouts.Idle = c.Router.FirstByte, c.Router.Answer, c.Router.Idle
	x := extproc.Defaults()
	x.MaxBody, x.MaxHeld, x.MaxStreams = c.Router.MaxBodyBytes, c.Router.MaxHeldBytes, c.Router.ExtProc.MaxStreams
	x.Destinations, x.Response = c.Router.ExtProc.Destinations, c.Router.ExtProc.Response
	x.TLS = extproc.TLS{Mode: c.Router.ExtProc.TLS, CertFile: c.Router.ExtProc.CertFile, KeyFile: c.Router.ExtProc.KeyFile}
	x.Timeouts.FirstByte, x.Timeouts.Answer, x.Timeouts.Idle = c.Router.FirstByte, c.Router.Answer, c.Router.Idle
	shareConfig, err := c.Router.share()
	if err != nil {
		return router.Config{}, err
	}
	config := router.Config{
		Listen: c.Router.Listen, Picker: c.Router.ExtProc.Listen, Admin: c.Router.Admin, DrainDelay: c.Router.DrainDelay, DrainTimeout: c.Router.Drain, Handover: c.Router.Handover,
		Pool: pool.Config{
			Endpoints: c.Router.Endpoints, File: c.Router.EndpointsFile,
			Interval: c.Router.Scrape.Interval, Timeout: c.Router.Scrape.Timeout,
		},
		Route:   routeConfig,
		Gateway: g,
		ExtProc: x,
		Share:   shareConfig,
		Drill:   c.Router.ConsoleDrill,
	}
	if err := config.Check(); err != nil {
		return config, fmt.Errorf("router.%w", err)
	}
	return config, nil
}

func runRouter(ctx context.Context, c *Config, log *slog.Logger) error {
	config, err := c.router()
	if err != nil {
		return err
	}
	if err := c.Router.salt(&config); err != nil {
		return err
	}
	if err := c.Router.checkSnapshot(); err != nil {
		return err
	}
	if config.Pool.Sources, err = c.Router.Discovery.sources(log); err != nil {
		return err
	}
	reg := telemetry.NewRegistry()
	if config.Guard, err = c.Access.guardAdmin(config.Admin, log, reg); err != nil {
		return err
	}
	tracer, endTracing, err := c.Tracing.open(ctx, "router", config.Route.Name, log, reg)
	if err != nil {
		return err
	}
	defer endTracing()
	config.Tracer = tracer
	store, err := openStore(ctx, log, true)
	if err != nil {
		return err
	}
	defer store.Close()
	addCalibrations(ctx, store, config.Route.Profiles, log)
	writer, err := featurestore.NewWriter(store, featurestore.WriterConfig{
		SpoolDir: c.Store.SpoolDir, SpoolBytes: c.Store.SpoolBytes, SharedSpool: c.Router.Handover != "", Logger: log, Registerer: reg,
	})
	if err != nil {
		return err
	}
	var serving atomic.Pointer[router.Serving]
	config.Recorder, config.Log, config.Metrics = writer, log, reg
	config.Store = consoleStore{store}
	config.Ready = func(s router.Serving) { serving.Store(&s) }
	var local *predictor.Server
	switch {
	case !config.Route.Forecasting():
	case c.Predictor.InProcess:
		local = predictor.New(c.Predictor.config(log, reg), source(store))
		config.Forecaster = forecaster{predictor.InProcess(local)}
	default:
		caller, err := c.Access.caller(c.Router.Forecast.Address, log)
		if err != nil {
			return err
		}
		client, err := predictor.Dial(c.Router.Forecast.Address, append(caller.DialOptions(), tracer.DialOptions()...)...)
		if err != nil {
			return fmt.Errorf("router.forecast.address: %w", err)
		}
		defer client.Close()
		config.Forecaster = forecaster{client}
	}

	// The writer outlives the router, so that what drains is still recorded.
	writing, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWriting()
	// So does a predictor in this process.
	var keep errgroup.Group
	keep.Go(func() error { return writer.Run(writing) })
	keep.Go(func() error { return lookAfter(writing, store, c, serving.Load, log) })
	if local != nil {
		keep.Go(func() error { return local.Run(writing) })
	}
	router.CollectRarely()
	err = router.Run(ctx, config)
	stopWriting()
	keep.Wait()
	if err != nil {
		return fmt.Errorf("router.%w", err)
	}
	return nil
}

// Rows of requests without an outcome are given up some time after all that
// the request may have waited for; those of other routers, which may be gone
// for good or only not heard of yet, much later.
const (
	lostAfter       = time.Minute
	lostAfterOthers = time.Hour
)

// lostBefore is when a request of this router must have been decided to be
// given up: so long ago that it has ended, and before all that are open. One
// that streams may go on for hours.
func (c *RouterConfig) lostBefore(now time.Time, serving *router.Serving) time.Time {
	before := now.Add(-max(c.FirstByte, c.Answer) - c.Idle - lostAfter)
	if serving != nil {
		if oldest, open := serving.OldestOpen(); open && oldest.Before(before) {
			return oldest
		}
	}
	return before
}

// aloneFrom is from when on no other process has open requests under this router's
// name: one that it took over from, after it began, may let them end for its drain
// timeout.
func (c *RouterConfig) aloneFrom(began time.Time) time.Time {
	if c.Handover == "" {
		return began
	}
	return began.Add(takeoverMost + c.Drain)
}

// takeoverMost is longer than a takeover and the last rows of who was before take.
const takeoverMost = time.Minute

// lookAfter keeps the store usable while the router runs: tables, day
// partitions, and outcomes that will never come. The database may be away.
func lookAfter(ctx context.Context, store *featurestore.Store, c *Config, serving func() *router.Serving, log *slog.Logger) error {
	// failed logs what went wrong, but for what the end of the process did.
	failed := func(err error, what string) bool {
		if err != nil && ctx.Err() == nil {
			log.Warn(what, "error", err)
		}
		return err != nil
	}
	sweep := func(router string, before time.Time) {
		n, err := store.Sweep(ctx, router, before)
		if !failed(err, "outcomes that will never come were not looked for") && n > 0 {
			log.Warn("requests never ended and are recorded as lost", "rows", n, "router", cmp.Or(router, "any"))
		}
	}
	migrated, alone := false, c.Router.aloneFrom(time.Now())
	var maintained time.Time
	for wait := time.Second; ; wait = time.Minute {
		now := time.Now()
		if !migrated {
			migrated = !failed(store.Migrate(ctx), "the store can't be prepared yet; rows wait on disk")
		}
		if migrated {
			before := c.Router.lostBefore(now, serving())
			if now.Sub(maintained) > time.Hour {
				if _, err := store.Maintain(ctx, now, c.Store.Ahead, c.Store.Retention); !failed(err, "day partitions were not maintained") {
					maintained = now
					sweep("", before.Add(-lostAfterOthers))
				}
			}
			if !now.Before(alone) {
				sweep(c.Router.Name, before)
			}
		} else {
			wait = 5 * time.Second
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}
