package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/featurestore/pglocal"
)

func storeServeCommand() *cobra.Command {
	var flags configFlags
	var dir string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a private Postgres for this machine",
		Long: `Run a private Postgres in store.data_dir, from the binaries installed on this
machine, reachable through a Unix socket only, until Ctrl-C. Prints the
DATABASE_URL for the other verbs. A server that ends by itself is started again;
when that doesn't help, the exit code is 1. Not needed where you have a Postgres.`,
		Example: `  spillway store serve --data-dir .spillway/postgres`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, log, done, err := flags.load(cmd)
			if err != nil || done {
				return err
			}
			if dir == "" {
				dir = c.Store.DataDir
			}
			ctx := cmd.Context()
			cluster, err := pglocal.Start(ctx, pglocal.Config{DataDir: dir, Logger: log})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "export DATABASE_URL='%s'\n", cluster.URL())
			kept := keepServing(ctx, cluster, log)
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			defer cancel()
			return errors.Join(kept, cluster.Stop(stop))
		},
	}
	flags.register(cmd)
	cmd.Flags().StringVar(&dir, "data-dir", "", "where the database lies, instead of store.data_dir")
	return cmd
}

// A server that ends sooner than soon after its start, or does not start, is
// given up at the soonAtMost-th time in a row.
const (
	soon       = time.Minute
	soonAtMost = 3
)

// keepServing starts the cluster again whenever it ends by itself, until ctx
// is done or that no longer helps.
func keepServing(ctx context.Context, cluster *pglocal.Cluster, log *slog.Logger) error {
	began := time.Now()
	var failure error // of the last start
	for quick := 1; ; quick++ {
		select {
		case <-ctx.Done():
		case <-cluster.Done(): // at once when it did not start
		}
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) >= soon {
			quick = 1
		}
		switch {
		case quick < soonAtMost:
			log.Error("the private Postgres ended by itself and is started again", "log", cluster.LogFile())
		case failure != nil:
			return fmt.Errorf("the private Postgres ended by itself and does not start again (%s says why): %w", cluster.LogFile(), failure)
		default:
			return fmt.Errorf("the private Postgres keeps ending by itself: %s says why", cluster.LogFile())
		}
		began = time.Now()
		failure = cluster.Start(ctx)
	}
}
