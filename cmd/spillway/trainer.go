package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/spillway-llm/spillway/internal/telemetry"
	"github.com/spillway-llm/spillway/trainer"
)

func trainerCommand() *cobra.Command {
	flags := configFlags{also: func(c *Config) error { return c.Access.asked(c.Trainer.Admin) }}
	var once, dry, asJSON bool
	var schedule string
	cmd := &cobra.Command{
		Use:   "trainer",
		Short: "Refit the forecasts on schedule",
		Long: `Refit the forecasts from the rows in the store: fit, judge on later rows, and
publish what beats the prior and the baseline. Refusals are stored with their
numbers. Several trainers may run; one at a time refits. /readyz of trainer.admin
says no once the last refit failed, or none ended well for three intervals of the
schedule. Needs DATABASE_URL.`,
		Example: `  spillway trainer --cron "*/10 * * * *"
  spillway trainer --cron "@every 20s"
  spillway trainer --once --json
  spillway trainer --once --dry-run
  spillway trainer verdicts qwen3-32b`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, log, done, err := flags.load(cmd)
			if err != nil || done {
				return err
			}
			if schedule != "" {
				c.Trainer.Schedule = schedule
				if err := c.check(); err != nil {
					return fmt.Errorf("--cron: %w", err)
				}
			}
			config, err := c.trainer()
			if err != nil {
				return err
			}
			if dry && !once {
				return errors.New("--dry-run wants --once: it says what one refit would do")
			}
			if err := c.Trainer.engineInstalled(); err != nil {
				return err
			}
			ctx := cmd.Context()
			store, err := openStore(ctx, log, !once)
			if err != nil {
				return err
			}
			defer store.Close()
			addCalibrations(ctx, store, config.Profiles, log)
			reg := telemetry.NewRegistry()
			owner, err := leaseOwner()
			if err != nil {
				return err
			}
			t, err := trainer.New(config, owner, refitStore{store}, log, reg)
			if err != nil {
				return err
			}
			if dry {
				results, err := t.DryRun(ctx)
				if err != nil {
					return err
				}
				if !asJSON {
					fmt.Fprintln(cmd.OutOrStdout(), "a dry run: nothing is stored, served or renewed; a refit now would do this")
				}
				return printRefits(cmd, results, asJSON)
			}
			if once {
				results, err := t.Once(ctx)
				if err != nil {
					return err
				}
				return printRefits(cmd, results, asJSON)
			}
			guard, err := c.Access.guardAdmin(c.Trainer.Admin, log, reg)
			if err != nil {
				return err
			}
			g, ctx := errgroup.WithContext(ctx)
			g.Go(func() error { return t.Run(ctx) })
			g.Go(func() error {
				return serveAdmin(ctx, "trainer.admin", c.Trainer.Admin, guard, reg, log, func() (string, error) { return "", t.Ready() })
			})
			log.Info("trainer runs", "schedule", c.Trainer.Schedule)
			return ended(g.Wait())
		},
	}
	flags.register(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "run one refit and exit")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "with --once: say what the refit would do, and change nothing")
	cmd.Flags().StringVar(&schedule, "cron", "", `when to refit, instead of trainer.schedule: "*/10 * * * *" or "@every 20s"`)
	cmd.Flags().BoolVar(&asJSON, "json", false, "with --once: print the verdicts as JSON")
	cmd.AddCommand(trainerVerdictsCommand())
	return cmd
}

// leaseOwner names this process in the lease. Containers share host names and
// process numbers, and two trainers of one name would both hold it.
func leaseOwner() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name this trainer after its host: %w", err)
	}
	return fmt.Sprintf("%s:%d:%s", host, os.Getpid(), rand.Text()[:8]), nil
}

func printRefits(cmd *cobra.Command, results []trainer.Result, asJSON bool) error {
	out := cmd.OutOrStdout()
	if asJSON {
		if results == nil {
			results = []trainer.Result{}
		}
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(results)
	}
	if len(results) == 0 {
		fmt.Fprintln(out, "nothing to refit: no decisions yet, or another trainer is at it")
	}
	for _, r := range results {
		fmt.Fprintf(out, "%s: %s, %d rows", r.LLM, r.Outcome, r.Rows)
		if r.Version != 0 {
			fmt.Fprintf(out, ", bundle %d", r.Version)
		}
		if r.Why != "" {
			fmt.Fprintf(out, " (%s)", r.Why)
		}
		fmt.Fprintln(out)
		if r.Verdict != nil {
			fmt.Fprint(out, verdictTable(r.Verdict))
		}
	}
	return nil
}
