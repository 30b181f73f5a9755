package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/trainer"
)

func trainerVerdictsCommand() *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:   "verdicts [LLM]",
		Short: "Show what the gate found, number by number",
		Long: `Show the newest verdicts of the gate on one LLM, or on all: what each candidate
was compared with, every number that decided, and why it was refused. They are
kept when the bundles themselves have outlived their retention.`,
		Example: `  DATABASE_URL=postgres://... spillway trainer verdicts
  DATABASE_URL=postgres://... spillway trainer verdicts qwen3-32b --limit 1 --json`,
		Args: oneLLM,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return fmt.Errorf("--limit: %d must be at least 1", limit)
			}
			store, err := askStore(cmd)
			if err != nil {
				return err
			}
			defer store.Close()
			bundles, err := store.Bundles(cmd.Context(), strings.Join(args, ""), limit)
			if err != nil {
				return err
			}
			list := make([]storedVerdict, len(bundles))
			for i, b := range bundles {
				list[i] = storedVerdict{LLM: b.LLM, Version: b.Version, CreatedAt: b.CreatedAt, Accepted: b.Accepted, Verdict: b.Verdict}
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(list)
			}
			return printVerdicts(cmd.OutOrStdout(), list)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the verdicts as they are stored")
	cmd.Flags().IntVar(&limit, "limit", 5, "show the newest, at most this many")
	return cmd
}

// storedVerdict is one verdict with the bundle it is on.
type storedVerdict struct {
	LLM       string          `json:"llm"`
	Version   int64           `json:"version"`
	CreatedAt time.Time       `json:"created_at"`
	Accepted  bool            `json:"accepted"`
	Verdict   json.RawMessage `json:"verdict"`
}

func printVerdicts(w io.Writer, list []storedVerdict) error {
	if len(list) == 0 {
		fmt.Fprintln(w, "no verdicts: no refit has come to one yet")
	}
	for i, s := range list {
		var v trainer.Verdict
		if err := json.Unmarshal(s.Verdict, &v); err != nil {
			return fmt.Errorf("the verdict on bundle %d: %w", s.Version, err)
		}
		if i > 0 {
			fmt.Fprintln(w)
		}
		says := "refused"
		if s.Accepted {
			says = "accepted"
		}
		fmt.Fprintf(w, "%s, bundle %d, %s: %s\n", s.LLM, s.Version, s.CreatedAt.Format(time.DateTime), says)
		for _, reason := range v.Reasons {
			fmt.Fprintf(w, "  because it %s\n", reason)
		}
		for _, missing := range v.Missing {
			fmt.Fprintf(w, "  %s\n", missing)
		}
		fmt.Fprint(w, verdictTable(&v))
	}
	return nil
}

// verdictTable shows every number of a verdict.
func verdictTable(v *trainer.Verdict) string {
	var s strings.Builder
	if len(v.Heads) > 0 {
		fmt.Fprintf(&s, "  learned from %d rows, judged on %d later ones; pinball loss of ln(actual/prior), all corrected online [95 %%]\n", v.LearnRows, v.HeldOut)
		lossTable(&s, v)
		goesBy(&s, v)
		orderTable(&s, v)
		coverageTable(&s, v)
		fmt.Fprintf(&s, "  median APE of p50: TTFT %s (prior %s), TPOT %s (prior %s)\n",
			percent(v.TTFTMedianAPE), percent(v.PriorTTFTMedianAPE), percent(v.TPOTMedianAPE), percent(v.PriorTPOTMedianAPE))
		fmt.Fprintf(&s, "  %d bytes; 16 candidates in %.2f ms; %d of %d pairs move against a feature's sign\n",
			v.Cost.Bytes, 1000*v.Cost.Forecast, v.Falls, v.Pairs)
	}
	if v.Engine != "" {
		fmt.Fprintf(&s, "  the p50 heads were grown by %s\n", v.Engine)
	}
	if v.EngineFailed != "" {
		fmt.Fprintf(&s, "  the forests are Spillway's own: %s\n", v.EngineFailed)
	}
	if b := v.Beside; b != nil {
		fmt.Fprintf(&s, "  bundle %d, served then, was found %s\n", b.Version, map[bool]string{true: "good", false: "no better than the prior"}[b.Good])
	}
	for _, flaw := range slices.Sorted(maps.Keys(v.Flawed)) {
		fmt.Fprintf(&s, "  %d rows left out: %s\n", v.Flawed[flaw], flaw)
	}
	return s.String()
}

// lossTable shows the losses of everyone, and by how much the candidate's are
// below those of its rivals.
func lossTable(s *strings.Builder, v *trainer.Verdict) {
	table(s, func(row func(...string)) {
		row("head", "rows", "candidate", "prior", "CART", "served", "distinct", "below")
		for _, h := range v.Heads {
			row(h.Head, fmt.Sprint(h.Rows), interval(&h.Candidate), interval(&h.Prior), interval(&h.CART), interval(h.Served), fmt.Sprint(h.Distinct), percent(h.Below))
		}
	})
	fmt.Fprintf(s, "  loss less that of: the prior %s, CART %s, one number for all (TTFT) %s, the served bundle %s; both uncorrected, the prior %s\n",
		interval(&v.VersusPrior), interval(&v.VersusCART), interval(&v.VersusLevel), interval(v.VersusServed), interval(v.VersusPlain))
}

// goesBy names the three features that each head's forest goes by most, with what
// its loss would rise by without each.
func goesBy(s *strings.Builder, v *trainer.Verdict) {
	for _, h := range v.Heads {
		var parts []string
		for _, x := range h.GoesBy[:min(3, len(h.GoesBy))] {
			parts = append(parts, fmt.Sprintf("%s (%+.4f)", x.Feature, x.Rise))
		}
		if len(parts) > 0 {
			fmt.Fprintf(s, "  beside the prior, %s goes by %s\n", h.Head, strings.Join(parts, ", "))
		}
	}
}

func orderTable(s *strings.Builder, v *trainer.Verdict) {
	if len(v.Order) == 0 {
		return
	}
	fmt.Fprintln(s, "  share of pairs of endpoints put in order [95 %], and how unlike the biases of endpoints are")
	table(s, func(row func(...string)) {
		row("latency", "candidate", "prior", "CART", "served", "over prior", "over CART", "over served", "bias spread", "prior's")
		for _, o := range v.Order {
			row(o.Latency, interval(&o.Candidate), interval(&o.Prior), interval(&o.CART), interval(o.Served),
				interval(&o.OverPrior), interval(&o.OverCART), interval(o.OverServed), percent(o.Spread.Typical), percent(o.PriorSpread.Typical))
		}
	})
}

func coverageTable(s *strings.Builder, v *trainer.Verdict) {
	if len(v.Coverage) == 0 {
		return
	}
	fmt.Fprintln(s, "  share of outcomes within their p90 [99 %], of all and by quarters of load; judged where it says so")
	table(s, func(row func(...string)) {
		row("head", "load", "rows", "effective", "share", "judged")
		for _, c := range v.Coverage {
			row(c.Head, c.Band, fmt.Sprint(c.Rows), fmt.Sprint(c.Effective), interval(&c.Share), map[bool]string{true: "yes", false: "no"}[c.Judged])
		}
	})
}

// table aligns rows under each other.
func table(s *strings.Builder, fill func(row func(...string))) {
	w := tabwriter.NewWriter(s, 0, 0, 2, ' ', 0)
	fill(func(cells ...string) { fmt.Fprintln(w, "  "+strings.Join(cells, "\t")) })
	if err := w.Flush(); err != nil {
		panic(err) // a strings.Builder takes everything
	}
}

// interval is a mean with its interval, or a dash.
func interval(i *evaluate.Interval) string {
	if i == nil || feature.IsUnknown(i.Mean) {
		return "-"
	}
	return fmt.Sprintf("%.4f [%.4f, %.4f]", i.Mean, i.Low, i.High)
}

func percent(n feature.Number) string {
	if feature.IsUnknown(n) {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*n)
}
