package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/telemetry"
	"github.com/spillway-llm/spillway/router/policy"
)

func explainCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain ID",
		Short: "Show one decision: what was known, why it was made, what came of it",
		Long: `Show one stored decision: its candidates with what was known of them, forecasts,
costs and probabilities, the reason, and what happened. ID is the first part of
the x-spillway-decision response header. Needs DATABASE_URL.`,
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
			e := explain(&d, outcomes)
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(e)
			}
			e.print(cmd.OutOrStdout())
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// explanation is a decision as a person reads it. Times are in seconds.
type explanation struct {
	ID         string              `json:"id"`
	DecidedAt  time.Time           `json:"decided_at"`
	LLM        string              `json:"llm"`
	Router     string              `json:"router"`
	Policy     string              `json:"policy"`
	State      string              `json:"state"`
	Reason     string              `json:"reason"`
	Bundle     int64               `json:"bundle"`
	Prompt     feature.Number      `json:"prompt_tokens"`
	Output     feature.Number      `json:"expected_output_tokens"`
	Chosen     string              `json:"chosen"`
	Propensity feature.Number      `json:"propensity"`
	Explored   bool                `json:"explored"`
	Candidates []explainedEndpoint `json:"candidates"`
	Rest       int                 `json:"candidates_not_stored"`
	Replay     string              `json:"replay"` // whether deciding again gives the same
	Outcomes   []explainedOutcome  `json:"outcomes"`
}

type explainedEndpoint struct {
	Endpoint      string          `json:"endpoint"`
	Class         string          `json:"class"`
	Probability   feature.Number  `json:"probability"`
	Cost          feature.Number  `json:"cost"`
	Cached        feature.Number  `json:"cached_tokens"`
	InFlight      feature.Number  `json:"inflight_requests"`
	PrefillTokens feature.Number  `json:"inflight_prefill_tokens"`
	Speed         feature.Number  `json:"speed_factor"`
	PriorTTFT     feature.Seconds `json:"prior_ttft"`
	TTFT          feature.Seconds `json:"forecast_ttft_p50"`
	TTFTP90       feature.Seconds `json:"forecast_ttft_p90"`
	PriorTPOT     feature.Seconds `json:"prior_tpot"`
	TPOT          feature.Seconds `json:"forecast_tpot_p50"`
}

type explainedOutcome struct {
	Attempt  int             `json:"attempt"`
	Status   feature.Status  `json:"status"`
	Endpoint string          `json:"endpoint"`
	TTFT     feature.Seconds `json:"ttft"`
	TPOT     feature.Seconds `json:"tpot"`
	E2E      feature.Seconds `json:"e2e"`
	Output   feature.Number  `json:"output_tokens"`
	Cached   feature.Number  `json:"cached_tokens"`
}

func explain(d *feature.Decision, outcomes []feature.Outcome) explanation {
	e := explanation{
		ID: d.ID.String(), DecidedAt: d.DecidedAt, LLM: d.LLM, Router: d.Router, Policy: d.Policy, State: d.State,
		Reason: d.Reason, Bundle: d.Bundle, Prompt: feature.Number(d.PromptTokens), Output: feature.Number(d.ExpectedOutputTokens),
		Chosen: d.Chosen, Propensity: feature.Number(d.Propensity), Explored: d.Explored, Rest: d.Rest,
		Candidates: []explainedEndpoint{}, Outcomes: []explainedOutcome{},
	}
	in, err := policy.Replay(d)
	switch {
	case !d.Complete:
		e.Replay = "not possible: the row does not hold every candidate"
	case err != nil:
		e.Replay = "not possible: " + err.Error()
	default:
		e.Replay = "the same choice and probabilities"
		var again policy.Choice
		err := policy.Decide(in, &again)
		if err == nil {
			err = policy.Same(d, in, &again)
		}
		if err != nil {
			e.Replay = "DIFFERS: " + err.Error()
		}
	}
	for i, c := range d.Candidates {
		x := explainedEndpoint{
			Endpoint: c.Endpoint, Class: c.Class, Probability: feature.Number(c.Probability), Cost: feature.Number(c.Cost),
			TTFT: c.Corrected.TTFT.P50, TTFTP90: c.Corrected.TTFT.P90, TPOT: c.Corrected.TPOT.P50,
			Cached: feature.Number(feature.Unknown), InFlight: feature.Number(feature.Unknown), PrefillTokens: feature.Number(feature.Unknown),
			Speed: feature.Number(feature.Unknown), PriorTTFT: feature.Seconds(feature.Unknown), PriorTPOT: feature.Seconds(feature.Unknown),
		}
		if err == nil && in != nil {
			known := &in.Candidates[i]
			prior := known.Prior(&in.Request)
			x.Cached, x.InFlight = feature.Number(known.CachedTokens), feature.Number(known.Load.Ledger.Requests)
			x.PrefillTokens, x.Speed = feature.Number(known.Load.Ledger.PrefillTokens), feature.Number(known.Load.Profile.SpeedFactor)
			x.PriorTTFT, x.PriorTPOT = prior.TTFT, prior.TPOT
		}
		e.Candidates = append(e.Candidates, x)
	}
	for _, o := range outcomes {
		e.Outcomes = append(e.Outcomes, explainedOutcome{
			Attempt: o.Attempt, Status: o.Status, Endpoint: o.Endpoint, TTFT: o.TTFT, TPOT: o.TPOT, E2E: o.E2E,
			Output: feature.Number(o.OutputTokens), Cached: feature.Number(o.CachedTokens),
		})
	}
	return e
}

func (e *explanation) print(w io.Writer) {
	fmt.Fprintf(w, "decision %s\n", e.ID)
	fmt.Fprintf(w, "  %s  %s by router %s\n", e.DecidedAt.Format("2006-01-02 15:04:05.000"), e.LLM, e.Router)
	fmt.Fprintf(w, "  prompt %.0f tokens, %.0f expected out\n", e.Prompt, e.Output)
	fmt.Fprintf(w, "  %s decided (forecasts %s", e.Policy, e.State)
	if e.Bundle != 0 {
		fmt.Fprintf(w, ", bundle %d", e.Bundle)
	}
	fmt.Fprintf(w, ")\n  chose %s with probability %.4g: %s\n\n", e.Chosen, e.Propensity, e.Reason)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "endpoint\tclass\tprob\tcost\tcached\tin flight\tprefill\tspeed\tTTFT prior\tforecast\tp90\tTPOT prior\tforecast\t")
	for _, c := range e.Candidates {
		mark := ""
		if c.Endpoint == e.Chosen {
			mark = "* "
		}
		fmt.Fprintf(t, "%s%s\t%s\t%.4g\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", mark, c.Endpoint, c.Class, c.Probability,
			number(c.Cost, "%.4g"), number(c.Cached, "%.0f"), number(c.InFlight, "%.0f"), number(c.PrefillTokens, "%.0f"), number(c.Speed, "%.2f"),
			number(c.PriorTTFT, "%.3f s"), number(c.TTFT, "%.3f s"), number(c.TTFTP90, "%.3f s"),
			number(c.PriorTPOT*1000, "%.1f ms"), number(c.TPOT*1000, "%.1f ms"))
	}
	t.Flush()
	if e.Rest > 0 {
		fmt.Fprintf(w, "and %d candidates that are not stored\n", e.Rest)
	}
	fmt.Fprintf(w, "\nreplay: %s\n", e.Replay)
	if len(e.Outcomes) == 0 {
		fmt.Fprintln(w, "no outcome yet")
	}
	for _, o := range e.Outcomes {
		fmt.Fprintf(w, "outcome: %s on %s (attempt %d): TTFT %s, TPOT %s, E2E %s, %s tokens out, %s cached\n", o.Status, o.Endpoint, o.Attempt,
			number(o.TTFT, "%.3f s"), number(o.TPOT*1000, "%.1f ms"), number(o.E2E, "%.3f s"), number(o.Output, "%.0f"), number(o.Cached, "%.0f"))
	}
}

// number formats v, or says that it is not known.
func number[T ~float64](v T, format string) string {
	if v != v {
		return "-"
	}
	return fmt.Sprintf(format, float64(v))
}
