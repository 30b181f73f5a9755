package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/internal/physics/fit"
)

// Formats of measured rows.
const (
	formatSilicon    = "silicon"
	formatSplitwise  = "splitwise"
	formatH200       = "h200"
	formatServingSim = "llmservingsim"
	formatOutcomes   = "outcomes"
)

func fitProfileCommand() *cobra.Command {
	var o fitOptions
	var out string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "fit-profile",
		Short: "Fit an engine profile to measured rows",
		Long: `Fit the five coefficients of an engine's step model to measured rows, and print
how well each group of rows is predicted by a fit that has not seen it.

Formats: silicon (CSV of measured steady states, as NVIDIA's aiconfigurator
publishes them), splitwise (CSV of static batches), h200 (JSON lines of llm-d's
latency predictor), llmservingsim (JSON lines of requests; the .meta.json beside
them is read for the engine's limits) and outcomes (the own rows of --window in
the store at DATABASE_URL, of one class of endpoints; their vectors tell the
engine's limits as the router knew them). Files may be compressed by gzip.

Outcomes tell of an engine what a router sees. What it can't tell apart, such as
prefill that came during an answer, is in the cost of a decoding sequence, so
that one number comes out too high; judge the profile by the errors printed.

What rows do not tell is the engine's configuration: give it with the flags.
Every verb that takes a profile takes the file written by --out.`,
		Example: `  spillway fit-profile --format silicon --rows silicon.csv.gz --select model=Qwen3-32B,gpu=h100,engine=vllm,tp=2
  spillway fit-profile --format llmservingsim --rows run.requests.jsonl --name my-4090 --out my-4090.json
  DATABASE_URL=postgres://... spillway fit-profile --format outcomes --window 24h --llm qwen3-32b --out mine.json
  spillway fleet --profile ./my-4090.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			result, err := o.fit(cmd)
			if err != nil {
				return err
			}
			for _, warning := range result.warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), "spillway:", warning)
			}
			if out != "" {
				text, err := json.MarshalIndent(result.Profile, "", "  ")
				if err != nil {
					return err
				}
				if err := os.WriteFile(out, append(text, '\n'), 0o644); err != nil {
					return fmt.Errorf("--out: %w", err)
				}
			}
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(result)
			}
			return result.print(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.files, "rows", nil, "file of measured rows; may be given several times")
	f.StringVar(&o.format, "format", "", "silicon, splitwise, h200, llmservingsim or outcomes")
	o.own.register(cmd, "rows of outcomes to use: those decided in the last so long, such as 24h")
	f.StringVar(&o.class, "class", "", "class of endpoints whose outcomes to use (default: the only one)")
	f.StringVar(&o.choice, "select", "", "rows of silicon and splitwise to use: model=, gpu=, engine= (parts of the names), version=, precision=, tp=, ep=, dp=")
	f.StringVar(&o.name, "name", "", "name of the profile (default: made from what was measured)")
	f.IntVar(&o.limits.MaxBatchedTokens, "max-batched-tokens", 0, "token budget of one engine step (default: what the rows' description says, else 8192)")
	f.IntVar(&o.limits.MaxNumSeqs, "max-num-seqs", 0, "most sequences in one batch (default: what the rows' description says, else 256)")
	f.IntVar(&o.limits.KVCapacityTokens, "kv-capacity-tokens", 0, "tokens the KV cache holds (default: what the rows tell)")
	f.IntVar(&o.limits.BlockTokens, "block-tokens", 0, "tokens of one cache block (default: what the rows' description says, else 16)")
	f.StringVar(&out, "out", "", "write the profile to this file")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// fitOptions is what a user asks for.
type fitOptions struct {
	files  []string
	format string
	choice string
	own    ownRows
	class  string
	name   string
	limits fit.Limits // 0 is not given
}

// fitResult is a fitted profile and how good it is.
type fitResult struct {
	Profile physics.Profile `json:"profile"`
	Rows    int             `json:"rows"`
	HeldOut []fit.Quality   `json:"held_out"`
	Beside  []fitNumber     `json:"beside"` // what was fitted and is no part of a profile

	what     string       // was measured
	limits   fit.Limits   // what the rows told
	held     *fit.Quality // of all rows
	coeff    physics.Coefficients
	overhead feature.Seconds
	warnings []string
}

// fitNumber is a fitted number that belongs to whoever sent the requests, or
// to their queue, not to the engine.
type fitNumber struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// fit reads, fits and judges.
func (o *fitOptions) fit(cmd *cobra.Command) (*fitResult, error) {
	fitters := map[string]func(*fitOptions) (*fitResult, error){
		formatSilicon: fitSilicon, formatSplitwise: fitSplitwise, formatH200: fitH200, formatServingSim: fitServingSim,
		formatOutcomes: func(o *fitOptions) (*fitResult, error) { return fitOutcomes(cmd, o) },
	}
	fitter, ok := fitters[o.format]
	switch {
	case !ok:
		return nil, fmt.Errorf("--format is %q: want silicon, splitwise, h200, llmservingsim or outcomes", o.format)
	case o.format == formatOutcomes && len(o.files) > 0:
		return nil, errors.New("--rows: outcomes are read from the store at DATABASE_URL, not from files")
	case o.format != formatOutcomes && (o.own != ownRows{} || o.class != ""):
		return nil, fmt.Errorf("--window, --llm and --class choose among outcomes; the rows of %s are read from files", o.format)
	case o.format != formatOutcomes && len(o.files) == 0:
		return nil, errors.New("--rows: want a file of measured rows")
	case o.choice != "" && o.format != formatSilicon && o.format != formatSplitwise:
		return nil, fmt.Errorf("--select chooses among rows of silicon and splitwise; rows of %s are of one engine", o.format)
	}
	for _, x := range []struct {
		flag  string
		value int
	}{
		{"--max-batched-tokens", o.limits.MaxBatchedTokens}, {"--max-num-seqs", o.limits.MaxNumSeqs},
		{"--kv-capacity-tokens", o.limits.KVCapacityTokens}, {"--block-tokens", o.limits.BlockTokens},
	} {
		if x.value < 0 {
			return nil, fmt.Errorf("%s is %d: want a positive number", x.flag, x.value)
		}
	}
	if err := o.own.check(); err != nil {
		return nil, err
	}
	r, err := fitter(o)
	if err != nil {
		return nil, err
	}
	limits := fit.Limits{
		MaxBatchedTokens: cmp.Or(o.limits.MaxBatchedTokens, r.limits.MaxBatchedTokens, 8192),
		MaxNumSeqs:       cmp.Or(o.limits.MaxNumSeqs, r.limits.MaxNumSeqs, 256),
		KVCapacityTokens: cmp.Or(o.limits.KVCapacityTokens, r.limits.KVCapacityTokens),
		BlockTokens:      cmp.Or(o.limits.BlockTokens, r.limits.BlockTokens, 16),
	}
	if limits.KVCapacityTokens == 0 {
		return nil, errors.New("--kv-capacity-tokens is needed: no row was short of cache, so the rows do not tell what it holds")
	}
	r.Profile, err = fit.Profile(cmp.Or(o.name, profileName(r.what)), fit.Note(r.what, r.Rows, *r.held), r.coeff, limits)
	r.Profile.Overhead = r.overhead
	return r, err
}

// profileName makes a name from what was measured: lower case, dashes.
func profileName(what string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' {
			return r
		}
		return '-'
	}, strings.ToLower(what)), "-")
}

func (r *fitResult) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "rows not used for the fit\tTTFT rows\tmedian\tp90\tworst\tTPOT rows\tmedian\tp90\tworst\t")
	for _, q := range r.HeldOut {
		fmt.Fprintf(tw, "%s\t%s\t%s\t\n", q.Group, spreadCells(q.TTFT), spreadCells(q.TPOT))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, n := range r.Beside {
		fmt.Fprintf(w, "%s: %.4g %s\n", n.Name, n.Value, n.Unit)
	}
	text, err := json.MarshalIndent(r.Profile, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

func spreadCells(s fit.Spread) string {
	if s.Rows == 0 {
		return "0\t\t\t"
	}
	return fmt.Sprintf("%d\t%.1f %%\t%.1f %%\t%.1f %%", s.Rows, 100*s.Median, 100*s.P90, 100*s.Worst)
}
