package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/evaluate/simulate"
	"github.com/spillway-llm/spillway/internal/feature"
)

// simulationCaveats say what a replay can't see.
var simulationCaveats = []string{
	"Engines are step models fitted to the log. What engines do that no such model describes (asynchronous scheduling, speculative decoding, " +
		"data-parallel ranks, offload) is in the fit only as far as it makes steps longer or shorter. The check above says how far that goes.",
	"Requests arrive when they arrived. A user who gets answers sooner and asks again sooner is followed within a conversation, and not beyond it.",
	"What prompts have in common is what their digests tell, and what caches held when the log began is what its router believed.",
	"Intervals hold what seeds, and fits to other parts of the log, make of the numbers, and a part of what the check found to be off. " +
		"They do not hold a change of traffic.",
}

// WriteSimulationTable writes what simulation says of a log, for a terminal.
func WriteSimulationTable(w io.Writer, r *simulate.Report) error {
	var text strings.Builder
	for _, line := range simulationSays(r) {
		fmt.Fprintln(&text, line)
	}
	checkTable(r).write(&text)
	fmt.Fprintf(&text, "\n%s\n", checkSays(r))
	if len(r.Settings) > 0 {
		effectsTable(r).write(&text)
		metricsTable(r).write(&text)
	}
	endpointsTable(r).shown().write(&text)
	text.WriteString("\nWhat these numbers can't see:\n")
	for _, line := range simulationCaveats {
		fmt.Fprintln(&text, wrapped("  - ", line))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// simulationSays is the report in some lines, before its numbers.
func simulationSays(r *simulate.Report) []string {
	l := &r.Log
	llm := l.LLM
	if llm == "" {
		llm = "one LLM"
	}
	lines := []string{
		fmt.Sprintf("%s: the log's traffic on engines fitted to it, %d seeds", llm, len(r.Seeds)),
		fmt.Sprintf("  %d requests in %d conversations on %d endpoints, %s to %s UTC, decided by %s (fallback %s)",
			l.Requests, l.Sessions, len(l.Endpoints), l.From.UTC().Format(time.DateTime), l.To.UTC().Format(time.DateTime), l.Policy, l.Fallback),
		fmt.Sprintf("  %d answered requests are judged, from %s UTC on, when what was on its way at the beginning had ended",
			r.Check.Logged.Requests, l.Settled.UTC().Format(time.TimeOnly)),
	}
	for _, note := range l.Notes {
		lines = append(lines, "  "+note)
	}
	return lines
}

// checkSays is what comes of the check.
func checkSays(r *simulate.Report) string {
	why := r.Check.Why()
	switch {
	case why == "":
		return "The replay of the logged policy comes out as the log does, so others may be ranked."
	case r.Anyway:
		return "! Asked for anyway, and not to be relied on: " + why
	}
	return "! " + why
}

func checkTable(r *simulate.Report) table {
	t := table{Title: "The logged policy, replayed", Head: []string{"seconds", "log", "replay", "off", "may be"}}
	for i := range r.Check.Off {
		d := &r.Check.Off[i]
		mark := ""
		if !d.Kept() {
			mark = " !"
		}
		t.Rows = append(t.Rows, []string{
			d.Metric + " " + d.Quantile, number(feature.Number(d.Logged)), number(feature.Number(d.Simulated)), signed(d.Off+1) + mark, fmt.Sprintf("%.0f %%", 100*d.Most),
		})
	}
	logged, replayed := &r.Check.Logged, &r.Check.Simulated
	t.Rows = append(t.Rows,
		[]string{"prompt tokens found cached", percent(logged.HitRate), percent(replayed.HitRate), points(replayed.HitRate - logged.HitRate), ""},
		[]string{"requests that failed", percent(logged.Failed), percent(replayed.Failed), points(replayed.Failed - logged.Failed), ""})
	return t
}

// points is a difference of shares.
func points(n feature.Number) string {
	if n != n {
		return unknownText
	}
	return fmt.Sprintf("%+.1f points", 100*float64(n))
}

// changeText is an effect with its interval.
func changeText(e *simulate.Effect) string {
	c := e.Change
	if c.Mean != c.Mean {
		return unknownText
	}
	unit := "%"
	if !e.Relative {
		unit = "points"
	}
	return fmt.Sprintf("%+.1f (%+.1f to %+.1f) %s", 100*c.Mean, 100*c.Low, 100*c.High, unit)
}

func effectsTable(r *simulate.Report) table {
	t := table{Title: "Against the replay of the logged policy, with 95 % intervals", Head: []string{""}}
	for i := range r.Settings {
		t.Head = append(t.Head, r.Settings[i].Name)
	}
	for k := range r.Settings[0].Effects {
		row := []string{r.Settings[0].Effects[k].Metric}
		for i := range r.Settings {
			row = append(row, changeText(&r.Settings[i].Effects[k]))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func metricsTable(r *simulate.Report) table {
	t := table{Title: "Seconds and shares, mean over the seeds", Head: []string{"", "replay"}}
	for i := range r.Settings {
		t.Head = append(t.Head, r.Settings[i].Name)
	}
	for k := range r.Settings[0].Effects {
		first := &r.Settings[0].Effects[k]
		show := number
		if !first.Relative {
			show = percent
		}
		row := []string{first.Metric, show(first.Before)}
		for i := range r.Settings {
			row = append(row, show(r.Settings[i].Effects[k].After))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func endpointsTable(r *simulate.Report) table {
	t := table{Title: "Engines as fitted", Head: []string{"endpoint", "class", "answers", "step ms", "prefill us/token", "decoding us", "KV ns/token", "outside ms"}}
	for i := range r.Log.Endpoints {
		e := &r.Log.Endpoints[i]
		c := e.Profile.Coefficients
		t.Rows = append(t.Rows, []string{
			e.Name, e.Class, fmt.Sprint(e.Answers), digits(1e3 * c.A), digits(1e6 * c.B), digits(1e6 * c.D), digits(1e9 * c.E), digits(1e3 * float64(e.Profile.Overhead)),
		})
	}
	return t
}
