package main

import (
	"github.com/spf13/cobra"
)

func evaluateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "evaluate",
		Short: "Judge forecasts and policies offline",
		Long:  `Judge what was forecast or decided by what came of it, from logged rows alone.`,
		Example: `  DATABASE_URL=postgres://... spillway evaluate forecasts --window 24h
  spillway evaluate forecasts --rows rows.parquet --report out.html
  spillway evaluate policy --rows rows.parquet --policy token-load --report out.html
  spillway evaluate simulate --rows rows.parquet --policy token-load,active-request
  spillway evaluate experiment --rows rows.parquet --report out.html`,
		Args: cobra.NoArgs, // or a misspelt verb would print the help and succeed
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(evaluateForecastsCommand(), evaluatePolicyCommand(), evaluateSimulateCommand(), evaluateExperimentCommand())
	return cmd
}
