package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spillway-llm/spillway/internal/explain"
	"github.com/spillway-llm/spillway/internal/feature"
)

// printExplanation writes a decision for a terminal.
func printExplanation(w io.Writer, e *explain.Decision) {
	fmt.Fprintf(w, "decision %s\n", e.ID)
	fmt.Fprintf(w, "  %s  %s by router %s\n", e.DecidedAt.Format("2006-01-02 15:04:05.000"), e.LLM, e.Router)
	fmt.Fprintf(w, "  prompt %.0f tokens, %.0f expected out", e.Prompt, e.Output)
	if !feature.IsUnknown(e.SLOTTFT) {
		fmt.Fprintf(w, ", SLO of TTFT %g s", e.SLOTTFT)
	}
	if !feature.IsUnknown(e.SLOTPOT) {
		fmt.Fprintf(w, ", SLO of TPOT %g ms", 1000*e.SLOTPOT)
	}
	if e.Priority != 0 {
		fmt.Fprintf(w, ", priority %d", e.Priority)
	}
	fmt.Fprintf(w, "\n  %s decided (mode %s, forecasts %s", e.Policy, e.Mode, e.State)
	if e.Bundle != 0 {
		fmt.Fprintf(w, ", bundle %d", e.Bundle)
	}
	if e.Experiment != "" {
		fmt.Fprintf(w, ", experiment %s", e.Experiment)
	}
	if e.Arm != "" {
		fmt.Fprintf(w, ", arm %s", e.Arm)
	}
	if e.Chosen == "" {
		fmt.Fprintf(w, ")\n  turned the request away, with probability %.4g: %s\n", e.ShedChance, e.Reason)
	} else {
		fmt.Fprintf(w, ")\n  chose %s with probability %.4g: %s\n", e.Chosen, e.Propensity, e.Reason)
	}
	if v := e.Valve; v != nil {
		state := "shut"
		if v.Margin < 0 {
			state = "open"
		}
		fmt.Fprintf(w, "  valve %s: warm %.2f s, coldest %.2f s, gap %.2f s; it opens above %g s, margin %.2f s\n", state, v.Warm, v.Coldest, v.Gap, v.OpensAt, v.Margin)
	}
	fmt.Fprintln(w)
	printCandidates(w, e)
	printTerms(w, e)
	printVector(w, e)
	fmt.Fprintf(w, "\nreplay: %s\n", e.Replay)
	if len(e.Outcomes) == 0 {
		fmt.Fprintln(w, "no outcome yet")
	}
	for _, o := range e.Outcomes {
		if o.Status == feature.Shed {
			fmt.Fprintln(w, "outcome: shed")
			continue
		}
		fmt.Fprintf(w, "outcome: %s on %s (attempt %d): TTFT %s, TPOT %s, E2E %s, %s tokens out, %s cached\n", o.Status, o.Endpoint, o.Attempt,
			number(o.TTFT, "%.3f s"), number(o.TPOT*1000, "%.1f ms"), number(o.E2E, "%.3f s"), number(o.Output, "%.0f"), number(o.Cached, "%.0f"))
	}
}

// marked is the candidate's name, with a star where it was chosen.
func marked(e *explain.Decision, c *explain.Candidate) string {
	if c.Endpoint == e.Chosen {
		return "* " + c.Endpoint
	}
	return c.Endpoint
}

func printCandidates(w io.Writer, e *explain.Decision) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "endpoint\tclass\tprob\tcost\tcached\tin flight\tprefill\tspeed\tTTFT prior\tforecast\tp90\tTPOT prior\tforecast\tp90\t")
	for i := range e.Candidates {
		c := &e.Candidates[i]
		fmt.Fprintf(t, "%s\t%s\t%.4g\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", marked(e, c), c.Class, c.Probability,
			number(c.Cost, "%.4g"), number(c.Cached, "%.0f"), number(c.InFlight, "%.0f"), number(c.PrefillTokens, "%.0f"), number(c.Speed, "%.2f"),
			number(c.PriorTTFT, "%.3f s"), number(c.TTFT, "%.3f s"), number(c.TTFTP90, "%.3f s"),
			number(c.PriorTPOT*1000, "%.1f ms"), number(c.TPOT*1000, "%.1f ms"), number(c.TPOTP90*1000, "%.1f ms"))
	}
	t.Flush()
	if e.Rest > 0 {
		fmt.Fprintf(w, "and %d candidates that are not stored\n", e.Rest)
	}
}

// printTerms shows what the costs are made of, where predicted decided.
func printTerms(w io.Writer, e *explain.Decision) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	first := true
	for i := range e.Candidates {
		c := &e.Candidates[i]
		if c.Terms == nil {
			continue
		}
		if first {
			fmt.Fprintln(w, "\ncosts in seconds: the request itself, then what it does to others")
			fmt.Fprintln(t, "endpoint\tcost\tTTFT\timpatience\toutput\teviction\theadroom\tcrowds\tholds up\tqueues\tslows\t")
			first = false
		}
		x := c.Terms
		fmt.Fprintf(t, "%s\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t\n", marked(e, c), c.Cost, x.TTFT, x.Impatience, x.Output, x.Eviction, x.Headroom, x.Crowding, x.Prefill, x.Queue, x.Decode)
	}
	t.Flush()
}

// printVector shows the vector of the chosen candidate; --json has all of them.
func printVector(w io.Writer, e *explain.Decision) {
	at := slices.IndexFunc(e.Candidates, func(c explain.Candidate) bool { return c.Endpoint == e.Chosen })
	if at < 0 || e.Candidates[at].Vector == nil {
		return
	}
	fmt.Fprintf(w, "\nvector of %s\n", e.Chosen)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, name := range feature.Names() {
		end := "\t"
		if i%3 == 2 || i == feature.Width-1 {
			end = "\n"
		}
		fmt.Fprintf(t, "  %s\t%s%s", name, number(e.Candidates[at].Vector[name], "%.6g"), end)
	}
	t.Flush()
}

// number formats v, or says that it is not known.
func number[T ~float64](v T, format string) string {
	if v != v {
		return "-"
	}
	return fmt.Sprintf(format, float64(v))
}
