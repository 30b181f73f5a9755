package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/spillway-llm/spillway/internal/telemetry"
	"github.com/spillway-llm/spillway/predictor"
)

func predictorCommand() *cobra.Command {
	var flags configFlags
	cmd := &cobra.Command{
		Use:   "predictor",
		Short: "Serve forecasts to routers",
		Long: `Serve TTFT and TPOT forecasts over gRPC, from the bundles published in the store.
A newly published bundle is checked and swapped in while requests go on; a bad one
is refused and the old one stays. Needs DATABASE_URL. Where that leads to a pooler,
LISTEN_DATABASE_URL may lead past it to the database itself: the predictor then
hears of a new bundle at once, and finds it by polling otherwise.`,
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
			server := predictor.New(predictor.Config{
				PollInterval: c.Predictor.PollInterval,
				Evaluator:    predictor.Evaluator(c.Predictor.Evaluator),
				Logger:       log, Registerer: reg,
			}, bundleSource{store, os.Getenv("LISTEN_DATABASE_URL")})
			server.Sync(ctx)
			ready := func() (string, error) { return predictorReady(server.Status()) }
			g, ctx := errgroup.WithContext(ctx)
			g.Go(func() error { return server.Run(ctx) })
			g.Go(func() error {
				if err := server.Serve(ctx, c.Predictor.Listen); err != nil {
					return fmt.Errorf("predictor.listen: %w", err)
				}
				return nil
			})
			g.Go(func() error { return serveAdmin(ctx, "predictor.admin", c.Predictor.Admin, reg, ready) })
			return ended(g.Wait())
		},
	}
	flags.register(cmd)
	return cmd
}

// predictorReady is ready while at least one LLM is served by a fresh bundle,
// and names the others either way.
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
	says = strings.Join(others, "\n")
	switch {
	case serving:
		return says, nil
	case says == "":
		return "", errNotReady("no bundle is published yet")
	default:
		return "", errNotReady("no bundle is served fresh\n" + says)
	}
}

// ended turns the end of a context into an orderly end.
func ended(err error) error {
	if err == context.Canceled {
		return nil
	}
	return err
}
