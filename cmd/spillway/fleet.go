package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/internal/fleet/server"
	"github.com/spillway-llm/spillway/internal/telemetry"
)

func fleetCommand() *cobra.Command {
	var config server.Config
	var endpoints, slow int
	var slowFactor float64
	var profile, level string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Run simulated engines behind the real OpenAI API",
		Long: `Run simulated engines in real time: each endpoint serves OpenAI completions and
chat completions and vLLM's metrics on a port of its own. Nothing is computed;
times follow the step model of the engine profile.

Faults on demand: POST /admin/fault on an endpoint with {"kind":"slow","factor":3},
{"kind":"error","status":500}, {"kind":"hang"}, {"kind":"reset"} or {"kind":"refuse"};
DELETE /admin/fault ends it. One that refuses all is reached through another of the
fleet, by its place from 0: DELETE /admin/fault?endpoint=2.`,
		Example: `  spillway fleet --endpoints 6 --profile qwen3-32b-h100-tp2-routing --port 9000
  spillway fleet --endpoints 6 --slow 2 --slow-factor 1.8 --perturb 7
  curl -X POST localhost:9000/admin/fault -d '{"kind":"slow","factor":3}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fast, err := engineProfile(profile)
			if err != nil {
				return fmt.Errorf("--profile: %w", err)
			}
			if endpoints < 1 || slow < 0 || slow > endpoints {
				return fmt.Errorf("--endpoints must be at least 1 and --slow from 0 to as many")
			}
			if slowFactor <= 0 {
				return fmt.Errorf("--slow-factor must be positive")
			}
			if endpoints > slow {
				config.Groups = append(config.Groups, server.Group{Profile: fast, Count: endpoints - slow})
			}
			if slow > 0 {
				config.Groups = append(config.Groups, server.Group{Profile: fast.Slowed(slowFactor), Count: slow})
			}
			if config.Logger, err = telemetry.NewLogger(cmd.ErrOrStderr(), level, "text"); err != nil {
				return fmt.Errorf("--log-level: %w", err)
			}
			s, err := server.New(config)
			if inUse := new(net.OpError); errors.As(err, &inUse) {
				return fmt.Errorf("--port: %w", err)
			}
			if err != nil {
				return err
			}
			urls := s.URLs()
			if asJSON {
				if err := json.NewEncoder(cmd.OutOrStdout()).Encode(urls); err != nil {
					return err
				}
			} else {
				for i, url := range urls {
					kind := profile
					if i >= endpoints-slow {
						kind = fast.Slowed(slowFactor).Name
					}
					fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n", url, kind)
				}
			}
			return s.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.IntVar(&endpoints, "endpoints", 6, "how many")
	f.IntVar(&slow, "slow", 0, "how many of them, the last ones, are slower")
	f.Float64Var(&slowFactor, "slow-factor", 1.8, "how many times slower those are")
	f.StringVar(&profile, "profile", defaultProfile, "engine profile, or a file that fit-profile wrote; add -xN to a name to slow it by N")
	f.StringVar(&config.Host, "host", "127.0.0.1", "address to listen on")
	f.IntVar(&config.Port, "port", 9000, "port of the first endpoint, the others follow; 0 takes free ones")
	f.StringVar(&config.Model, "model", "qwen3-32b", "name of the LLM that is served")
	f.Uint64Var(&config.PerturbSeed, "perturb", 0, "make each endpoint differ from its profile: every coefficient by 0.8 to 1.25, and an overhead nobody is told; 0 leaves them alone")
	f.Uint64Var(&config.Seed, "seed", 1, "of step noise and output lengths")
	f.Float64Var(&config.ReasoningShare, "reasoning-share", 0, "share of a chat's output that is reasoning_content")
	f.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	f.BoolVar(&asJSON, "json", false, "print the endpoints' URLs as a JSON list")
	return cmd
}
