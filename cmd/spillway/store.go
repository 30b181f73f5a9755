package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/telemetry"
)

// Limits of one process at the database, where DATABASE_URL sets none.
const (
	storeConns    = 8               // beside one that listens, and one while the schema changes
	serviceAtMost = 5 * time.Minute // for a statement of a service; a verb's export goes on for as long as its file takes
)

// openStore opens the store at DATABASE_URL. That of a service is lazy: it need not
// be reachable yet.
func openStore(ctx context.Context, log *slog.Logger, lazy bool) (*featurestore.Store, error) {
	o := featurestore.Options{Logger: log, Lazy: lazy, MaxConns: storeConns}
	if lazy {
		o.StatementTimeout = serviceAtMost
	}
	return featurestore.Open(ctx, databaseURL(), o)
}

// askStore opens the store for a verb that ends at once.
func askStore(cmd *cobra.Command) (*featurestore.Store, error) {
	log, err := telemetry.NewLogger(cmd.ErrOrStderr(), "warn", "text")
	if err != nil {
		return nil, err
	}
	return openStore(cmd.Context(), log, false)
}

func storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Look after the feature store",
		Long: `Look after the feature store, the Postgres database at DATABASE_URL that holds
decisions, outcomes and bundles.`,
		Example: `  DATABASE_URL=postgres://... spillway store migrate
  DATABASE_URL=postgres://... spillway store status
  DATABASE_URL=postgres://... spillway store bundles qwen3-32b`,
		Args: cobra.NoArgs, // or a misspelt verb would print the help and succeed
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(storeMigrateCommand(), storeStatusCommand(), storeBundlesCommand(), storeRollbackCommand(), storeExportCommand(), storeServeCommand(), storeImportCommand(), storeImportBundleCommand())
	return cmd
}

func storeMigrateCommand() *cobra.Command {
	var flags configFlags
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create or upgrade the tables, make and drop day partitions",
		Long: `Create or upgrade the tables, make the day partitions of the coming days and drop
those past store.retention. Safe to run at any time, also while routers write.`,
		Example: `  DATABASE_URL=postgres://... spillway store migrate`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, log, done, err := flags.load(cmd)
			if err != nil || done {
				return err
			}
			store, err := openStore(cmd.Context(), log, false)
			if err != nil {
				return err
			}
			defer store.Close()
			if err := store.Migrate(cmd.Context()); err != nil {
				return err
			}
			if _, err := store.Maintain(cmd.Context(), time.Now(), c.Store.Ahead, c.Store.Retention); err != nil {
				return err
			}
			version, _, err := store.Version(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "schema version %d\n", version)
			return nil
		},
	}
	flags.register(cmd)
	return cmd
}

func storeStatusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show what the store holds",
		Example: `  DATABASE_URL=postgres://... spillway store status --json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := askStore(cmd)
			if err != nil {
				return err
			}
			defer store.Close()
			status, err := store.Status(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(status)
			}
			printStoreStatus(cmd, status)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printStoreStatus(cmd *cobra.Command, s featurestore.Status) {
	out := cmd.OutOrStdout()
	if s.Migration == 0 {
		fmt.Fprintln(out, `the database has no tables yet: run "spillway store migrate"`)
		return
	}
	fmt.Fprintf(out, "schema version %d (this binary: %d), %.1f MB\n", s.Migration, s.Latest, float64(s.Bytes)/1e6)
	for _, t := range []struct {
		name string
		featurestore.TableStatus
	}{{"decisions", s.Decisions}, {"outcomes", s.Outcomes}} {
		fmt.Fprintf(out, "%-10s %9d rows, %.1f MB, %d days", t.name, t.Rows, float64(t.Bytes)/1e6, t.Partitions)
		if t.Rows > 0 {
			fmt.Fprintf(out, ", %s to %s", t.Oldest.Format(time.DateTime), t.Newest.Format(time.DateTime))
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "joined     %9d decisions have an outcome\n", s.Joined)
	fmt.Fprintf(out, "bundles    %9d stored, %d accepted\n", s.Bundles, s.Accepted)
	for _, p := range s.Served {
		fmt.Fprintf(out, "served     %s: bundle %d, validated %s, good for %s (%s%s)\n",
			p.LLM, p.Version, p.ValidatedAt.Format(time.DateTime), p.MaxAge, p.Reason, map[bool]string{true: ", pinned"}[p.Pinned])
	}
}
