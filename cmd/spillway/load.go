package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/internal/loadgen"
	"github.com/spillway-llm/spillway/internal/openai"
	"github.com/spillway-llm/spillway/internal/trace"
)

func loadCommand() *cobra.Command {
	var config loadgen.Config
	var traceFile, workload, out, api string
	var rate float64
	var spread, asJSON bool
	var own ownRows
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Replay a trace or a workload against an OpenAI-compatible URL",
		Long: `Send the requests of a trace (Azure CSV or Mooncake JSON lines, gzipped or not), of
a synthetic workload or of the own traffic of --window, and measure TTFT, TPOT and
E2E as the router does. Arrivals are the trace's own (open loop) unless
--concurrency is given.
Broken lines of a trace are named and left out.

Workloads: ` + strings.Join(loadgen.Workloads(), ", ") + ".",
		Example: `  spillway load --url http://127.0.0.1:8080 --trace azure-2023-conv.csv.gz --speedup 2 --duration 150s
  spillway load --url http://127.0.0.1:8080 --trace mooncake.jsonl.gz --spread
  spillway load --url http://127.0.0.1:8080 --workload mixed --limit 500 --out records.jsonl
  spillway load --url http://127.0.0.1:8080 --workload reasoning --concurrency 20 --json
  DATABASE_URL=postgres://... spillway load --url http://127.0.0.1:8080 --window 1h --speedup 2`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			items, err := loadItems(cmd, traceFile, spread, &own, loadgen.Workload{Name: workload, Rate: rate, Seed: config.Seed})
			if err != nil {
				return err
			}
			config.Items = items
			switch api {
			case "chat":
				config.API = openai.Chat
			case "completions":
				config.API = openai.Completions
			default:
				return fmt.Errorf("--api: %q is neither chat nor completions", api)
			}
			if out != "" {
				file, err := os.Create(out)
				if err != nil {
					return fmt.Errorf("--out: %w", err)
				}
				defer file.Close()
				config.Records = file
			}
			config.Progress = loadgen.Terminal()
			config.Header = http.Header{}
			if key := os.Getenv("OPENAI_API_KEY"); key != "" {
				config.Header.Set("Authorization", "Bearer "+key)
			}
			summary, err := loadgen.Run(cmd.Context(), config)
			if disk := new(fs.PathError); errors.As(err, &disk) {
				return fmt.Errorf("--out: %w", err)
			}
			if err != nil {
				return fmt.Errorf("--%w", err) // settings are named as their flags
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(summary)
			}
			fmt.Fprint(cmd.OutOrStdout(), summary)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&config.URL, "url", "http://127.0.0.1:8080", "base URL of the server, with or without /v1")
	f.StringVar(&config.Model, "model", "qwen3-32b", "LLM to ask for")
	f.StringVar(&api, "api", "chat", "chat or completions")
	f.StringVar(&traceFile, "trace", "", "trace file to replay")
	f.BoolVar(&spread, "spread", false, "move a trace's requests of one time to random moments before the next time: for traces with rounded times, such as Mooncake's")
	f.StringVar(&workload, "workload", "", "synthetic workload, instead of a trace")
	own.register(cmd, windowUse)
	f.Float64Var(&rate, "rate", 0, "mean requests a second of a workload; 0 is its own")
	f.Float64Var(&config.Speedup, "speedup", 1, "divide the time between arrivals by this")
	f.DurationVar(&config.Duration, "duration", 0, "stop sending after this long; 0 sends all")
	f.IntVar(&config.Limit, "limit", 0, "send at most this many; 0 sends all")
	f.IntVar(&config.Concurrency, "concurrency", 0, "closed loop with this many clients; 0 is open loop")
	f.Uint64Var(&config.Seed, "seed", 1, "of prompts and of a workload")
	f.DurationVar(&config.Timeout, "timeout", loadgen.DefaultTimeout, "of one request")
	f.StringVar(&out, "out", "", "write one JSON line per request to this file")
	f.BoolVar(&asJSON, "json", false, "print the summary as JSON")
	return cmd
}

// loadItems is what will be sent: a trace's requests, its broken lines named
// on standard error, the store's, or a workload's.
func loadItems(cmd *cobra.Command, traceFile string, spread bool, own *ownRows, w loadgen.Workload) (iter.Seq[trace.Item], error) {
	if err := oneOf(traceFile, w.Name, own, loadgen.Workloads()); err != nil {
		return nil, err
	}
	if w.Name != "" {
		items, err := w.Items()
		if err != nil {
			return nil, fmt.Errorf("--workload: %w", err)
		}
		return items, nil
	}
	if own.window > 0 {
		items, err := own.items(cmd)
		return slices.Values(items), err
	}
	items, err := readTrace(cmd.ErrOrStderr(), traceFile)
	if spread {
		items = trace.Spread(items, rand.New(rand.NewPCG(w.Seed, 1)))
	}
	return slices.Values(items), err
}

// oneOf finds mistakes in what names the traffic: a trace, a workload or the
// store's rows.
func oneOf(traceFile, workload string, own *ownRows, workloads []string) error {
	if err := own.check(); err != nil {
		return err
	}
	given := 0
	for _, is := range []bool{traceFile != "", workload != "", own.window != 0} {
		if is {
			given++
		}
	}
	switch given {
	case 0:
		return fmt.Errorf("--trace FILE, --workload NAME or --window DURATION is needed; workloads are %s", strings.Join(workloads, ", "))
	case 1:
		return nil
	}
	return errors.New("--trace, --workload and --window exclude each other")
}

// readTrace reads a whole trace and names its broken lines.
func readTrace(complaints io.Writer, name string) ([]trace.Item, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("--trace: %w", err)
	}
	defer file.Close()
	items, report, err := trace.Load(file)
	if err != nil {
		return nil, fmt.Errorf("--trace: %s: %w", name, err)
	}
	for _, broken := range report.FirstBroken {
		fmt.Fprintf(complaints, "%s: %v\n", name, broken)
	}
	if report.Broken > 0 {
		fmt.Fprintf(complaints, "%s: %d lines left out, %d requests used\n", name, report.Broken, len(items))
	}
	return items, nil
}
