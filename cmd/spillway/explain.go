package main

import (
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/internal/explain"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/telemetry"
)

func explainCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain ID",
		Short: "Show one decision: what was known, why it was made, what came of it",
		Long: `Show one stored decision: its candidates with what was known of them, forecasts,
costs with their terms, the valve and its margin, probabilities, the reason, and
what happened. ID is the first part of the x-spillway-decision response header.
Needs DATABASE_URL.`,
		Example: `  spillway explain 0193750b-8f3a-7cc4-9d55-0a1b2c3d4e5f`,
		Args:    oneArg("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, _, _ := strings.Cut(args[0], ";")
			id, err := feature.ParseID(strings.TrimSpace(text))
			if err != nil {
				return err
			}
			log, err := telemetry.NewLogger(cmd.ErrOrStderr(), "warn", "text")
			if err != nil {
				return err
			}
			store, err := openStore(cmd.Context(), log, false)
			if err != nil {
				return err
			}
			defer store.Close()
			d, outcomes, err := store.Decision(cmd.Context(), id)
			if err != nil {
				return err
			}
			e := explain.Of(&d, outcomes)
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(e)
			}
			printExplanation(cmd.OutOrStdout(), &e)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
