package demo

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/feature"
)

// Print writes the report for people. dir is where the demo's data lies.
func (r *Report) Print(w io.Writer, dir string) {
	fmt.Fprintf(w, "\n%d requests, %d failed; %d decisions stored, %d joined with their outcome; %d bundles accepted\n\n",
		r.Requests, r.Failed, r.Decisions, r.Outcomes, r.BundlesAccepted)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "state\tseconds\trequests\tTTFT p50\tp90\tTPOT p50\tE2E mean\treason\t")
	for _, p := range r.Phases {
		fmt.Fprintf(t, "%s\t%.1f\t%d\t%s\t%s\t%s\t%s\t%s\t\n", p.State, p.Seconds, p.Requests,
			shown(p.TTFTP50, 1, "s"), shown(p.TTFTP90, 1, "s"), shown(p.TPOTP50, 1000, "ms"), shown(p.E2EMean, 1, "s"), clipped(p.Reason, 60))
	}
	t.Flush()
	fmt.Fprintf(w, "\nforecasts that decided: TTFT median APE %s, MAPE %s, p90 covers %s; TPOT median APE %s, MAPE %s, p90 covers %s\n",
		percent(r.TTFTMedianAPE), percent(r.TTFTMAPE), percent(r.TTFTP90Coverage), percent(r.TPOTMedianAPE), percent(r.TPOTMAPE), percent(r.TPOTP90Coverage))
	fmt.Fprintf(w, "%d decisions chose another endpoint than the matched configuration would have\n\n", r.ChoseOtherwise)
	for _, c := range r.Claims {
		mark := "ok   "
		if !c.Holds {
			mark = "WRONG"
		}
		fmt.Fprintf(w, "%s  %s: %s\n", mark, c.Claim, c.Saw)
	}
	fmt.Fprintf(w, `
These queries give the numbers above; $1 and $2 bound the run, in the last one
the time from the kill to the restart:
%[1]s

%[2]s

%[3]s

%[4]s

Everything lies in %[5]s: the database, every decision with what came of it
(log.parquet), load's records (load.jsonl), logs, and the configuration
(spillway.yaml) as an example of one. What to try next:

  bin/spillway evaluate forecasts --rows %[6]s
  bin/spillway evaluate policy --policy token-load --rows %[6]s
  bin/spillway evaluate simulate --policy token-load --rows %[6]s
                                       how good forecasts were, and what another policy would have done
  bin/spillway store serve --data-dir %[7]s
                                       starts that database and prints its DATABASE_URL; with it set:
  bin/spillway store status
  bin/spillway explain %[8]s
  bin/spillway demo --stay             keeps everything running, console included
`, indented(featurestore.CountSQL), indented(featurestore.PhasesSQL), indented(featurestore.AccuracySQL),
		indented(featurestore.ForecastsAfterSQL), dir, filepath.Join(dir, logFile), filepath.Join(dir, "postgres"), r.example())
}

// example is the id of a decision worth looking at.
func (r *Report) example() string {
	if r.exampleID == "" {
		return "ID"
	}
	return r.exampleID
}

func shown(s feature.Seconds, factor float64, unit string) string {
	if s != s {
		return "-"
	}
	return fmt.Sprintf("%.3g %s", float64(s)*factor, unit)
}

func percent(n feature.Number) string {
	if n != n {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n))
}

func clipped(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most-3] + "..."
}

func indented(sql string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(sql), "\n", "\n  ")
}
