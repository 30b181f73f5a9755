package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/internal/demo"
	"github.com/spillway-llm/spillway/internal/trace"
)

// What a trace is sped up or slowed down to: enough requests for a first bundle
// within a minute, and no more prefill than six simulated endpoints can serve
// at a bit over half of their capacity.
const (
	demoRate = 9.0 // requests a second of a trace at most
	// Conversations begin at once but go on for minutes, so a workload's rate is
	// reached only after the demo has ended.
	demoWorkloadRate = 14.0
	demoPrefill      = 52_000.0 // prompt tokens a second that no earlier request shares, at most
)

func demoCommand() *cobra.Command {
	var config demo.Config
	var traceFile, workload, jsonFile string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run every part on this machine and watch it work",
		Long: `Run a private Postgres, six simulated engines of two speeds, predictor, trainer,
router and load, as processes of their own under one Ctrl-C. The predictor is
killed on the way. Prints what happens as it happens, then a table, and checks
what it claims from the database and from load's own records: exit code 1 if
anything is not so.`,
		Example: `  spillway demo
  spillway demo --trace azure-2023-conv.csv.gz --duration 150s --json out.json
  spillway demo --workload mixed --seed 3 --stay`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if traceFile != "" && workload != "" {
				return fmt.Errorf("--trace and --workload exclude each other")
			}
			if config.Duration < 2*time.Minute {
				return fmt.Errorf("--duration must be at least 2m: the trainer needs rows to learn from, and the predictor time to be killed and to return")
			}
			if config.Speedup < 0 {
				return fmt.Errorf("--speedup must not be negative")
			}
			binary, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this binary: %w", err)
			}
			config.Binary, config.Out, config.DatabaseURL = binary, cmd.OutOrStdout(), databaseURL()
			if err := demoTraffic(cmd, &config, traceFile, workload); err != nil {
				return err
			}
			config.Report = func(report *demo.Report) error {
				report.Print(cmd.OutOrStdout(), config.Dir)
				if jsonFile == "" {
					return nil
				}
				if err := writeJSON(jsonFile, report); err != nil {
					return fmt.Errorf("--json: %w", err)
				}
				return nil
			}
			_, err = demo.Run(cmd.Context(), config)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&traceFile, "trace", "", "trace to replay: Azure CSV or Mooncake JSON lines, gzipped or not")
	f.StringVar(&workload, "workload", "", "synthetic workload, instead of a trace (default interactive-chat)")
	f.DurationVar(&config.Duration, "duration", 140*time.Second, "how long requests are sent")
	f.Float64Var(&config.Speedup, "speedup", 0, fmt.Sprintf("divide the time between a trace's arrivals by this; 0 chooses for up to %g requests a second", demoRate))
	f.Uint64Var(&config.Seed, "seed", 1, "of the engines' imperfections and of the prompts")
	f.StringVar(&config.Dir, "dir", filepath.Join(".spillway", "demo"), "where all data goes; an earlier demo's is replaced")
	f.StringVar(&jsonFile, "json", "", "write the report to this file as JSON")
	f.BoolVar(&config.Stay, "stay", false, "keep everything but the load running afterwards, until Ctrl-C")
	return cmd
}

// demoTraffic sets what is sent and how fast.
func demoTraffic(cmd *cobra.Command, config *demo.Config, traceFile, workload string) error {
	if traceFile == "" {
		if workload == "" {
			workload = "interactive-chat"
		}
		config.Traffic = []string{"--workload", workload, "--rate", fmt.Sprint(demoWorkloadRate)}
		config.Source = "workload " + workload
		if config.Speedup == 0 {
			config.Speedup = 1
		}
		return nil
	}
	items, err := readTrace(cmd.ErrOrStderr(), traceFile)
	if err != nil {
		return err
	}
	if config.Speedup == 0 {
		config.Speedup = speedupFor(items, config.Duration)
	}
	config.Traffic = []string{"--trace", traceFile}
	config.Source = filepath.Base(traceFile)
	if trace.Rounded(items) {
		config.Traffic = append(config.Traffic, "--spread")
		config.Source += " (its rounded times spread)"
	}
	return nil
}

// speedupFor is the speedup at which as many of the trace's first requests fall
// into the duration as the demo's rates allow, traces being uneven.
func speedupFor(items []trace.Item, duration time.Duration) float64 {
	seen := map[uint64]bool{}
	prefill := 0.0
	last := 0
	for i, item := range items {
		prefill += float64(unshared(item, seen))
		if float64(i) > demoRate*duration.Seconds() || prefill > demoPrefill*duration.Seconds() {
			break
		}
		last = i
	}
	return max(0.01, (items[last].At-items[0].At).Seconds()/duration.Seconds())
}

// unshared is how many tokens of the item's prompt lie behind the longest
// prefix seen before.
func unshared(item trace.Item, seen map[uint64]bool) int {
	shared := 0
	for _, block := range item.Blocks {
		if !seen[block] {
			break
		}
		shared += item.BlockTokens
	}
	for _, block := range item.Blocks {
		seen[block] = true
	}
	return max(0, item.PromptTokens-shared)
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
