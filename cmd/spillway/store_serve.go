package main

import (
	"context"
	"fmt"
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
DATABASE_URL for the other verbs. Not needed where you have a Postgres.`,
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
			<-ctx.Done()
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			defer cancel()
			return cluster.Stop(stop)
		},
	}
	flags.register(cmd)
	cmd.Flags().StringVar(&dir, "data-dir", "", "where the database lies, instead of store.data_dir")
	return cmd
}
