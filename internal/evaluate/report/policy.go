package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/evaluate/offpolicy"
	"github.com/spillway-llm/spillway/internal/feature"
)

// estimatorSays tells what each estimator is.
var estimatorSays = map[string]string{
	offpolicy.DirectAll: "mean forecast of what the target does, beside that of what was done, also where the log left nothing to chance; right as far as forecasts are",
	offpolicy.Direct:    "the same, of the decisions that were left to chance alone, as all below",
	offpolicy.IPS:       "what came, weighted by how much more often the target does it; right on average, and noisy",
	offpolicy.SNIPS:     "the same, divided by the sum of the weights; less noisy",
	offpolicy.DR:        "forecasts, corrected by the weighted errors of those that came true; right where either is",
	offpolicy.SwitchDR:  "the same, without corrections whose weight exceeds a threshold that is chosen on the log",
}

// caveats say in plain words what none of the numbers can see.
var caveats = []string{
	"These are first-order estimates: each is of the one request, in the state that the log's own policy had brought about. " +
		"A request that is sent elsewhere makes others there slower and others here faster; over thousands of requests that is the greater part of " +
		"what a policy does, and nothing here sees it. Take the sign of a great effect from here, and its size from a simulation or an experiment.",
	"Which endpoint holds which prefix is the work of the log's policy. A policy that would have gathered prefixes elsewhere, or scattered them, " +
		"is judged as if it found every prefix where the log's policy had left it.",
	"What the log never did has no example: there the direct method, DR and switch-DR take a forecast's word, and IPS and SNIPS leave it out.",
	"Intervals are of chance in the log, not of these three.",
}

// quantitySays is a quantity as people call it.
var quantitySays = map[offpolicy.Quantity]string{
	offpolicy.TTFT: "mean TTFT", offpolicy.TPOT: "mean TPOT", offpolicy.E2E: "mean end-to-end latency", offpolicy.Attained: "share of requests that met their objectives",
}

// WritePolicyTable writes what a target policy would have come to, for a terminal.
func WritePolicyTable(w io.Writer, r *offpolicy.Report) error {
	var text strings.Builder
	for _, line := range policySays(r) {
		fmt.Fprintln(&text, line)
	}
	t := estimatesTable(r)
	t.write(&text)
	text.WriteString("\n")
	for _, line := range policyNotes(r) {
		fmt.Fprintln(&text, line)
	}
	for _, line := range r.Warnings {
		fmt.Fprintln(&text, "! "+line)
	}
	text.WriteString("\nWhat these numbers can't see:\n")
	for _, line := range caveats {
		fmt.Fprintln(&text, wrapped("  - ", line))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// wrapped breaks a line at 90 letters, with a mark before the first.
func wrapped(mark, line string) string {
	var out strings.Builder
	out.WriteString(mark)
	at := len(mark)
	for i, word := range strings.Fields(line) {
		if i > 0 && at+1+len(word) > 90 {
			out.WriteString("\n" + strings.Repeat(" ", len(mark)))
			at = len(mark)
		} else if i > 0 {
			out.WriteString(" ")
			at++
		}
		out.WriteString(word)
		at += len(word)
	}
	return out.String()
}

// policySays is the report in some lines, before its numbers.
func policySays(r *offpolicy.Report) []string {
	lines := []string{
		fmt.Sprintf("%s: %s under %s", r.LLM, quantitySays[r.Quantity], r.Target),
		fmt.Sprintf("  %d of %d decisions judged, %s to %s UTC; %s",
			r.Judged, r.Decisions, r.From.Format(time.DateTime), r.To.Format(time.DateTime), chance(r)),
		fmt.Sprintf("  made by %s; made again by %s", decidedBy(r.LoggedBy), decidedBy(r.TargetBy)),
	}
	for _, l := range r.LeftOut {
		lines = append(lines, fmt.Sprintf("  left out: %d, %s", l.Decisions, l.Why))
	}
	if r.Failed > 0 {
		as := "a miss"
		if r.Quantity != offpolicy.Attained {
			as = digits(r.Longest) + " s"
		}
		lines = append(lines, fmt.Sprintf("  %d got no answer from the endpoint chosen: each counts as %s", r.Failed, as))
	}
	if r.Cut > 0 {
		lines = append(lines, fmt.Sprintf("  %d took longer than %s s: each counts as that", r.Cut, digits(r.Longest)))
	}
	if r.TurnedAway > 0 || r.Sheds > 0 {
		as := "they have no latency and count in no mean"
		if r.Quantity == offpolicy.Attained {
			as = "they count as misses"
		}
		lines = append(lines, fmt.Sprintf("  %d were turned away, the target would turn away %s of all: %s", r.TurnedAway, percent(feature.Number(r.Sheds)), as))
	}
	if r.Priced {
		lines = append(lines, "  with what the cost of predicted says that each request takes from others there, now and later")
	}
	return lines
}

// chance is how many decisions were left to chance.
func chance(r *offpolicy.Report) string {
	if r.Deterministic == 0 {
		return "all of them left something to chance"
	}
	return fmt.Sprintf("%d of them left nothing to chance, for the direct method alone", r.Deterministic)
}

func decidedBy(all []offpolicy.Decided) string {
	var parts []string
	for _, d := range all {
		parts = append(parts, fmt.Sprintf("%s (%d)", d.Policy, d.Decisions))
	}
	return strings.Join(parts, ", ")
}

// policyNotes are what belongs to the numbers.
func policyNotes(r *offpolicy.Report) []string {
	o := &r.Overlap
	var out []string
	if r.Judged > r.Deterministic {
		out = append(out, fmt.Sprintf("overlap: %s effective samples of %d, largest weight %s; the log has no example of %s of what the target does (in %s of the decisions); both do the same in %s at best",
			digits(o.Effective), r.Judged-r.Deterministic, digits(o.Largest), percent(feature.Number(o.Missing)), percent(feature.Number(o.Without)), percent(feature.Number(o.Common))))
		threshold := "no threshold, so it is DR"
		if v := float64(r.Switch); !math.IsInf(v, 0) {
			threshold = "corrections up to weight " + digits(v)
		}
		out = append(out, "switch-DR: "+threshold)
	}
	if s := r.Sequence; s != nil {
		out = append(out, fmt.Sprintf("effect by a confidence sequence, which holds whenever one looks (95 %%): %s to %s%s", difference(r, s.Low), difference(r, s.High), narrower(r)))
	}
	if a := r.Aborted; a != nil {
		out = append(out, fmt.Sprintf("%d requests were given up before that was seen; had all of them come to the least they can have, DR would say %s, to the most %s",
			a.Requests, effectText(r, a.Least), effectText(r, a.Most)))
	}
	return out
}

// narrower says what makes a confidence sequence narrower.
func narrower(r *offpolicy.Report) string {
	if r.Quantity == offpolicy.Attained {
		return ""
	}
	return fmt.Sprintf(" (it allows for values up to %s s: --longest)", digits(r.Longest))
}

// estimatesTable lays the estimators side by side.
func estimatesTable(r *offpolicy.Report) table {
	t := table{Title: quantityTitle(r), Head: []string{"estimator", "decisions", "target", "as it was", "effect (95 %)", "relative (95 %)", ""}}
	for i := range r.Estimates {
		x := &r.Estimates[i]
		row := []string{x.Name, fmt.Sprint(x.Samples), unknownText, unknownText, unknownText, unknownText, x.Withheld}
		if x.Withheld == "" {
			row = []string{x.Name, fmt.Sprint(x.Samples), amountOf(r, float64(x.Target.Mean)), amountOf(r, float64(x.Logged)),
				effectText(r, x.Effect), relativeText(x.Relative), ""}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func quantityTitle(r *offpolicy.Report) string {
	better := "less is better"
	if r.Quantity == offpolicy.Attained {
		better = "more is better"
	}
	return quantitySays[r.Quantity] + " (" + better + ")"
}

// amountOf writes a value of the report's quantity.
func amountOf(r *offpolicy.Report, v float64) string {
	if r.Unit == "" {
		return percent(feature.Number(v))
	}
	return number(feature.Number(v)) + " " + r.Unit
}

// difference writes a difference of such values.
func difference(r *offpolicy.Report, v float64) string {
	if math.Abs(v) < 5e-6 { // what stands behind the last digit that is written
		v = 0
	}
	sign := "+"
	if v < 0 {
		sign = "-"
	}
	if r.Unit == "" {
		return fmt.Sprintf("%s%.2f points", sign, 100*math.Abs(v))
	}
	return sign + digits(math.Abs(v)) + " " + r.Unit
}

func effectText(r *offpolicy.Report, i evaluate.Interval) string {
	if i.Mean != i.Mean {
		return unknownText
	}
	return fmt.Sprintf("%s (%s to %s)", difference(r, float64(i.Mean)), difference(r, float64(i.Low)), difference(r, float64(i.High)))
}

func relativeText(i evaluate.Interval) string {
	if i.Mean != i.Mean {
		return unknownText
	}
	return fmt.Sprintf("%+.1f (%+.1f to %+.1f) %%", 100*i.Mean, 100*i.Low, 100*i.High)
}
