package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/telemetry"
	"github.com/spillway-llm/spillway/predictor"
	"github.com/spillway-llm/spillway/router"
	"github.com/spillway-llm/spillway/router/gateway"
	"github.com/spillway-llm/spillway/router/policy"
	"github.com/spillway-llm/spillway/router/pool"
)

func routerCommand() *cobra.Command {
	var flags configFlags
	cmd := &cobra.Command{
		Use:   "router",
		Short: "Route OpenAI requests to endpoints",
		Long: `Route OpenAI-compatible requests to the endpoints of the configuration or of a
watched file. Decisions and outcomes go to the store at DATABASE_URL; while it is
away they wait on disk. A status page, metrics and health are on the admin
listener. SIGTERM drains: requests in flight end, new ones are not accepted.`,
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

func runRouter(ctx context.Context, c *Config, log *slog.Logger) error {
	if len(c.Router.Endpoints) == 0 && c.Router.EndpointsFile == "" {
		return fmt.Errorf("router.endpoints: is empty, and router.endpoints_file too; list at least one endpoint")
	}
	routeConfig, err := c.route()
	if err != nil {
		return err
	}
	reg := telemetry.NewRegistry()
	store, err := openStore(ctx, log, true)
	if err != nil {
		return err
	}
	defer store.Close()
	writer, err := featurestore.NewWriter(store, featurestore.WriterConfig{
		SpoolDir: c.Store.SpoolDir, SpoolBytes: c.Store.SpoolBytes, Logger: log, Registerer: reg,
	})
	if err != nil {
		return err
	}
	config := router.Config{
		Listen: c.Router.Listen, Admin: c.Router.Admin, DrainTimeout: c.Router.Drain,
		Pool: pool.Config{
			Endpoints: c.Router.Endpoints, File: c.Router.EndpointsFile,
			Interval: c.Router.Scrape.Interval, Timeout: c.Router.Scrape.Timeout,
		},
		Route: routeConfig,
		Gateway: gateway.Config{
			MaxBody: c.Router.MaxBodyBytes, AskUsage: c.Router.AskUsage,
			Timeouts: gatewayTimeouts(c),
		},
		Recorder: writer, Log: log, Metrics: reg,
	}
	if c.Router.Policy == policy.Predicted {
		client, err := predictor.Dial(c.Router.Forecast.Address)
		if err != nil {
			return fmt.Errorf("router.forecast.address: %w", err)
		}
		defer client.Close()
		config.Forecaster = forecaster{client}
	}

	// The writer outlives the router, so that what drains is still recorded.
	writing, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWriting()
	var keep errgroup.Group
	keep.Go(func() error { return writer.Run(writing) })
	keep.Go(func() error { return lookAfter(writing, store, c, log) })
	err = router.Run(ctx, config)
	stopWriting()
	keep.Wait()
	if err != nil {
		return fmt.Errorf("router.%w", err)
	}
	return nil
}

// lostAfter is how long after its time-out a request without an outcome is
// given up.
const lostAfter = time.Minute

// lookAfter keeps the store usable while the router runs: tables, day
// partitions, and outcomes that will never come. The database may be away.
func lookAfter(ctx context.Context, store *featurestore.Store, c *Config, log *slog.Logger) error {
	migrated := false
	var maintained time.Time
	for wait := time.Second; ; wait = time.Minute {
		now := time.Now()
		if !migrated {
			if err := store.Migrate(ctx); err == nil {
				migrated = true
			} else if ctx.Err() == nil {
				log.Warn("the store can't be prepared yet; rows wait on disk", "error", err)
				wait = 5 * time.Second
			}
		}
		if migrated && now.Sub(maintained) > time.Hour {
			if _, err := store.Maintain(ctx, now, c.Store.Ahead, c.Store.Retention); err == nil {
				maintained = now
			} else if ctx.Err() == nil {
				log.Warn("day partitions were not maintained", "error", err)
			}
		}
		if migrated {
			olderThan := now.Add(-c.Router.FirstByte - c.Router.Idle - lostAfter)
			if n, err := store.Sweep(ctx, c.Router.Name, olderThan); err == nil && n > 0 {
				log.Warn("requests never ended and are recorded as lost", "rows", n)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func gatewayTimeouts(c *Config) gateway.Timeouts {
	t := gateway.Defaults().Timeouts
	t.FirstByte, t.Idle = c.Router.FirstByte, c.Router.Idle
	return t
}
