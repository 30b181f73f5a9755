package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/evaluate/experiment"
	"github.com/spillway-llm/spillway/internal/feature"
)

// measured is a quantity of an experiment as people call it.
var measured = map[experiment.Quantity]string{
	experiment.TTFT: "mean TTFT", experiment.TTFTP90: "TTFT p90", experiment.TPOT: "mean TPOT", experiment.E2E: "mean end-to-end",
	experiment.Attained: "met their objectives", experiment.Goodput: "goodput", experiment.Failed: "failed or shed",
}

// switchbackCaveats and splitCaveats say in plain words what the numbers can't see.
var switchbackCaveats = []string{
	"The units are pairs of blocks, not requests. A request counts in the block in which it was decided on, whatever it meets later; by TPOT and end-to-end latency none counts that would run on for long when the other arm decides.",
	"An arm is judged among the queues and prefixes that the other arm left, for as long as the burn-in does not let go of them. " +
		"Where the difference is another in the second half of blocks than in the first, it did not.",
	"Latencies are of the requests that have them; those that failed stand in a row of their own, and those that clients gave up in none. " +
		"An arm that fails slow requests, or makes clients give up, looks fast.",
	"Each interval holds its truth 19 times in 20. Of seven quantities one is soon outside by chance: say before which one decides.",
}

var splitCaveats = []string{
	"The naive difference takes requests of one arm not to touch those of the other. Before shared queues that is false: an arm that finds the short " +
		"lines that the other left looks better than it would alone, and its requests make others slower or faster. It is biased, and is shown because everybody computes it.",
	"The difference in Q counts what came of each choice for its own request and for all that came within the horizon. It takes arrivals not to depend on the arms, " +
		"what a choice does to end within the horizon, and the effect to grow evenly with the share. Where prefixes come to lie is beyond it.",
	"A share of 5 % tells slowly: where the interval of the difference in Q is wide, a switchback needs less traffic.",
}

// WriteExperimentTable writes what an experiment showed, for a terminal.
func WriteExperimentTable(w io.Writer, r *experiment.Report) error {
	var text strings.Builder
	for _, line := range experimentSays(r) {
		fmt.Fprintln(&text, line)
	}
	t := experimentTable(r)
	t.write(&text)
	text.WriteString("\n")
	for _, line := range experimentNotes(r) {
		fmt.Fprintln(&text, wrapped("", line))
	}
	for _, line := range r.Warnings {
		fmt.Fprintln(&text, wrapped("! ", line))
	}
	text.WriteString("\nWhat these numbers can't see:\n")
	for _, line := range experimentCaveats(r) {
		fmt.Fprintln(&text, wrapped("  - ", line))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func experimentCaveats(r *experiment.Report) []string {
	if r.Switchback != nil {
		return switchbackCaveats
	}
	return splitCaveats
}

// experimentSays is the report in some lines, before its numbers.
func experimentSays(r *experiment.Report) []string {
	llm := r.LLM
	if llm == "" {
		llm = "one LLM"
	}
	var lines []string
	if s := r.Switchback; s != nil {
		lines = append(lines,
			fmt.Sprintf("%s: experiment %s, %s instead of %s", llm, s.Name, r.Arms[1], r.Arms[0]),
			fmt.Sprintf("  switchback: %d of %d pairs of blocks of %v, %v of each burnt in; %s to %s UTC",
				s.Pairs, s.Planned, s.Block.Duration(), s.BurnIn.Duration(), s.Start.Format(time.DateTime), s.End.Format(time.DateTime)))
	} else {
		s := r.Split
		lines = append(lines,
			fmt.Sprintf("%s: canary, %s instead of %s", llm, r.Arms[1], r.Arms[0]),
			fmt.Sprintf("  a share of %g %% by design: %d requests against %d, %s to %s UTC",
				100*s.Share, s.Requests[1], s.Requests[0], r.From.Format(time.DateTime), r.To.Format(time.DateTime)))
		if s.Untossed > 0 {
			lines = append(lines, fmt.Sprintf("  for %d more no coin was tossed: forecasts could not have decided", s.Untossed))
		}
	}
	lines = append(lines, fmt.Sprintf("  %d of %d requests judged; %d decisions were no part of it", r.Judged, r.Requests, r.Outside))
	for _, arm := range append(r.Arms[:], "") {
		var by []string
		for _, p := range r.Decided {
			if p.Arm == arm {
				by = append(by, fmt.Sprintf("%s (%d)", p.Policy, p.Requests))
			}
		}
		if len(by) > 0 {
			name := "arm " + arm
			if arm == "" {
				name = "no arm"
			}
			lines = append(lines, fmt.Sprintf("  %s: decided by %s", name, strings.Join(by, ", ")))
		}
	}
	for _, l := range r.LeftOut {
		lines = append(lines, fmt.Sprintf("  left out: %d, %s", l.Requests, l.Why))
	}
	return lines
}

// experimentTable lays the quantities below each other.
func experimentTable(r *experiment.Report) table {
	if s := r.Split; s != nil {
		t := table{Title: r.Arms[1] + " instead of " + r.Arms[0],
			Head: []string{"", r.Arms[0], r.Arms[1], "naive difference (95 %)", "relative", "difference in Q (95 %)", "relative"}}
		for i := range s.Effects {
			e := &s.Effects[i]
			if e.Naive.Mean != e.Naive.Mean {
				continue
			}
			t.Rows = append(t.Rows, []string{measured[e.Quantity], amount(e.Arms[0], e.Unit), amount(e.Arms[1], e.Unit),
				change(e.Naive, e.Unit), relativeText(e.NaiveRelative), change(e.DQ, e.Unit), relativeText(e.DQRelative)})
		}
		return t
	}
	s := r.Switchback
	t := table{Title: r.Arms[1] + " instead of " + r.Arms[0], Head: []string{"", r.Arms[0], r.Arms[1], "difference (95 %)", "relative (95 %)", "p", "pairs",
		fmt.Sprintf("for %g %%", 100*s.Detect)}}
	for i := range s.Effects {
		if e := &s.Effects[i]; e.Pairs > 0 {
			t.Rows = append(t.Rows, effectRow(e, measured[e.Quantity]))
		}
	}
	t.Rows = append(t.Rows, effectRow(&s.Offered, "requests sent"))
	return t
}

func effectRow(e *experiment.Effect, name string) []string {
	pairs := unknownText
	if e.Wanted > 0 {
		pairs = fmt.Sprint(e.Wanted)
	}
	return []string{name, amount(e.Arms[0], e.Unit), amount(e.Arms[1], e.Unit), change(e.Difference, e.Unit), relativeText(e.Relative),
		number(e.P), fmt.Sprint(e.Pairs), pairs}
}

// experimentNotes are what belongs to the numbers.
func experimentNotes(r *experiment.Report) []string {
	if s := r.Split; s != nil {
		return []string{
			fmt.Sprintf("difference in Q: what came of a choice for all requests within %s s after it", number(feature.Number(s.Horizon))),
			fmt.Sprintf("check: prompts of the arms differ by %s tokens (95 %%: %s to %s), as a fair coin makes them", signedNumber(s.Prompt.Mean), signedNumber(s.Prompt.Low), signedNumber(s.Prompt.High)),
		}
	}
	s := r.Switchback
	out := []string{fmt.Sprintf("p: how often the order of the pairs alone gives so great a difference. for %g %%: so many pairs find such an effect in 80 of 100 experiments%s.",
		100*s.Detect, enough(s))}
	if c := s.Effects[0].Carry; c.Mean == c.Mean {
		out = append(out, fmt.Sprintf("carry-over: the difference in mean TTFT is %s in the second half of blocks than in the first (95 %%: %s to %s)",
			more(c.Mean), signedAmount(c.Low, "s"), signedAmount(c.High, "s")))
	}
	took := fmt.Sprintf("burn-in: %s of the requests took longer than it", percent(s.Longer))
	if s.HalfLife == s.HalfLife {
		took += fmt.Sprintf("; half of what the caches hold is other text after %v", feature.Seconds(s.HalfLife).Duration().Round(time.Second))
	}
	return append(out, took)
}

// enough says how long the pairs wanted for mean TTFT take.
func enough(s *experiment.Switchback) string {
	e := &s.Effects[0]
	if e.Wanted == 0 {
		return ""
	}
	return fmt.Sprintf("; of mean TTFT that is %d blocks, %v", 2*e.Wanted, time.Duration(2*e.Wanted)*s.Block.Duration())
}

// more writes a change of a difference in seconds.
func more(n feature.Number) string {
	if n < 0 {
		return digits(-float64(n)) + " s less"
	}
	return digits(float64(n)) + " s more"
}

// amount writes a value with its unit.
func amount(n feature.Number, unit string) string {
	switch {
	case n != n:
		return unknownText
	case unit == "":
		return percent(n)
	case unit == "1/s":
		return digits(float64(n)) + "/s"
	}
	return digits(float64(n)) + " " + unit
}

// signedAmount writes a difference with its unit.
func signedAmount(n feature.Number, unit string) string {
	if n != n {
		return unknownText
	}
	if unit == "" {
		return fmt.Sprintf("%+.2f points", 100*float64(n))
	}
	sign := "+"
	if n < 0 {
		sign = "-"
	}
	return sign + amount(feature.Number(math.Abs(float64(n))), unit)
}

func signedNumber(n feature.Number) string {
	if n != n {
		return unknownText
	}
	return fmt.Sprintf("%+.1f", n)
}

// change writes a difference with its interval.
func change(i evaluate.Interval, unit string) string {
	if i.Mean != i.Mean {
		return unknownText
	}
	bare := func(n feature.Number) string { // the unit stands behind the mean
		text, _, _ := strings.Cut(strings.TrimSuffix(signedAmount(n, unit), "/s"), " ")
		return text
	}
	return fmt.Sprintf("%s (%s to %s)", signedAmount(i.Mean, unit), bare(i.Low), bare(i.High))
}
