// Command spillway is the whole product in one binary: each process of a
// deployment is one of its verbs. It holds flags, configuration and wiring;
// what the processes do is in the packages they are made of.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/internal/telemetry"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "spillway:", oneLine(err.Error()))
		os.Exit(1)
	}
}

// oneLine joins the lines of a text, for libraries that write several.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "spillway",
		Short: "Latency-predictive router for LLM inference",
		Long: `Spillway routes LLM requests to the vLLM or SGLang endpoint where they will be
served soonest. It keeps a request with its cached prefix until that endpoint is
saturated, predicts TTFT and TPOT per endpoint, and falls back to the matched
configuration when the predictions are stale, slow, down or wrong.

Start with "spillway demo": it runs every part on this machine for three minutes.`,
		Example: `  spillway demo
  spillway router --config spillway.yaml
  spillway explain 0193750b-8f3a-7cc4-9d55-0a1b2c3d4e5f`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       telemetry.Version(),
	}
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.AddCommand(
		routerCommand(), predictorCommand(), trainerCommand(), storeCommand(),
		fleetCommand(), loadCommand(), simulateCommand(), demoCommand(), fitProfileCommand(), calibrateCommand(), evaluateCommand(), adviseCommand(),
		explainCommand(), healthCommand(), versionCommand(),
	)
	return cmd
}

// oneArg wants exactly one argument, which the usage line calls name.
func oneArg(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("want one %s, not %d arguments: %s", name, len(args), cmd.UseLine())
		}
		return nil
	}
}
