package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/telemetry"
	"github.com/spillway-llm/spillway/predictor"
)

func predictorCommand() *cobra.Command {
	flags := configFlags{also: (*Config).apart}
	cmd := &cobra.Command{
		Use:   "predictor",
		Short: "Serve forecasts to routers",
		Long: `Serve TTFT and TPOT forecasts over gRPC, from the bundles published in the store.
A newly published bundle is checked and swapped in while requests go on; a bad one
is refused and the old one stays. Needs DATABASE_URL. Where that leads to a pooler,
LISTEN_DATABASE_URL may lead past it to the database itself: the predictor then
hears of a new bundle at once, and finds it by polling otherwise.

With "predictor: in-process" in its configuration a router makes the forecasts
itself and needs no predictor beside it. It then shares its cores with them.`,
		Example: `  DATABASE_URL=postgres://... spillway predictor --config spillway.yaml`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, log, done, err := flags.load(cmd)
			if err != nil || done {
				return err
			}
			ctx := cmd.Context()
			store, err := openStore(ctx, log, true)
			if err != nil {
				return err
			}
			defer store.Close()
			reg := telemetry.NewRegistry()
			config := c.Predictor.config(log, reg)
			if config.Guard, err = c.Access.guardPredictor(log, reg); err != nil {
				return err
			}
			guard, err := c.Access.guardAdmin(c.Predictor.Admin, log, reg)
			if err != nil {
				return err
			}
			tracer, endTracing, err := c.Tracing.open(ctx, "predictor", c.Router.Name, log, reg)
			if err != nil {
				return err
			}
			defer endTracing()
			config.Tracer = tracer
			server := predictor.New(config, source(store))
			server.Sync(ctx)
			ready := func() (string, error) { return predictorReady(server.Status()) }
			g, ctx := errgroup.WithContext(ctx)
			g.Go(func() error { return server.Run(ctx) })
			g.Go(func() error { server.FollowLoad(ctx); return nil })
			g.Go(func() error {
				if err := server.Serve(ctx, c.Predictor.Listen); err != nil {
					return fmt.Errorf("predictor.listen: %w", err)
				}
				return nil
			})
			g.Go(func() error { return serveAdmin(ctx, "predictor.admin", c.Predictor.Admin, guard, reg, log, ready) })
			return ended(g.Wait())
		},
	}
	flags.register(cmd)
	return cmd
}

// inProcess is what "predictor:" says when the router is to forecast itself.
const inProcess = "in-process"

// UnmarshalYAML reads keys, or the one word inProcess. Keys that would have no
// effect are mistakes.
func (c *PredictorConfig) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		if node.Value != inProcess {
			return fmt.Errorf("%q is not %s", node.Value, inProcess)
		}
		c.InProcess = true
		return nil
	}
	type keys PredictorConfig
	if err := node.Decode((*keys)(c)); err != nil || !c.InProcess {
		return err
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if key := node.Content[i]; key.Value == "listen" || key.Value == "admin" {
			return fmt.Errorf("line %d: predictor.%s: a predictor that is %s has no listeners, the router's admin listener shows its metrics; leave this key out, or in_process", key.Line, key.Value, inProcess)
		}
	}
	return nil
}

// apart reports whether a predictor may have a process of its own.
func (c *Config) apart() error {
	if c.Predictor.InProcess {
		return errors.New("predictor: is " + inProcess + ", so the router makes the forecasts itself; leave that out to run a predictor beside it")
	}
	if err := c.Access.asked(c.Predictor.Admin); err != nil {
		return err
	}
	if err := c.Access.needless("predictor.listen", c.Predictor.Listen); err != nil {
		return err
	}
	listen := c.Access.predictor()
	return listen.TLS.Check("access.predictor_tls", "access.", false)
}

// config is the predictor's configuration as package predictor wants it, without
// who may ask it.
func (c *PredictorConfig) config(log *slog.Logger, reg prometheus.Registerer) predictor.Config {
	return predictor.Config{
		PollInterval: c.PollInterval, MaxWaiting: c.MaxWaiting, Evaluator: predictor.Evaluator(c.Evaluator),
		Logger: log, Registerer: reg,
	}
}

// source lets a predictor follow the store.
func source(store *featurestore.Store) predictor.Source {
	return bundleSource{store, os.Getenv("LISTEN_DATABASE_URL")}
}

// predictorReady is ready while at least one LLM is served by a fresh bundle.
// Either way it names the others with their states, and a store that does not
// answer.
func predictorReady(status predictor.Status) (says string, err error) {
	var others []string
	serving := false
	for _, l := range status.LLMs {
		if l.State == predictor.Serving {
			serving = true
		} else {
			others = append(others, stateLine(l))
		}
	}
	if status.SourceError != "" {
		others = append(others, "the store does not answer: "+status.SourceError)
	}
	says = strings.Join(others, "\n")
	switch {
	case serving:
		return says, nil
	case len(status.LLMs) > 0:
		return "", errNotReady("no bundle is served fresh\n" + says)
	case says != "":
		return "", errNotReady("failed: " + says)
	default:
		return "", errNotReady("untrained: no bundle is published yet")
	}
}

// ended turns the end of a context into an orderly end.
func ended(err error) error {
	if err == context.Canceled {
		return nil
	}
	return err
}
