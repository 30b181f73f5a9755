package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/telemetry"
)

func versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print what this binary was built from",
		Example: "  spillway version --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := telemetry.ReadBuild()
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(struct {
					telemetry.Build
					Schema string `json:"schema"`
				}{b, feature.Schema.String()})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "spillway %s\nrevision %s\n%s %s\nvector schema %s\n",
				b.Version, b.Revision, b.GoVersion, b.Platform, feature.Schema)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
