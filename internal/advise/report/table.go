package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/spillway-llm/spillway/internal/advise"
)

// Subject is what the advice is about.
type Subject struct {
	Traffic string `json:"traffic"` // the workload or the file, with its load
	Fleet   string `json:"fleet"`   // one sentence
	Command string `json:"command"` // that makes the advice again
}

// WriteTable writes advice for a terminal.
func WriteTable(w io.Writer, s Subject, a *advise.Advice) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s on %s\n\n", s.Traffic, s.Fleet)
	fmt.Fprintf(&text, "recommended: %s", a.Recommended)
	if a.Recommended != a.Matched {
		fmt.Fprintf(&text, " (of the matched configurations: %s)", a.Matched)
	}
	text.WriteString("\n")
	for _, why := range a.Why {
		fmt.Fprintf(&text, "  %s\n", capital(why))
	}
	fmt.Fprintf(&text, "\nwhat binds, %s\n", basis(a))
	tab := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range uses(a) {
		fmt.Fprintf(tab, "  %s\t\n", strings.Join(row, "\t"))
	}
	_ = tab.Flush() // into memory
	fmt.Fprintf(&text, "  over time: %s (p prefill, d decode, s slots, k kv, . nothing)\n", strip(a.Moments))
	fmt.Fprintf(&text, "\nwhat each choice would give, %s\n", simulated(a))
	tab = tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range results(a) {
		fmt.Fprintf(tab, "  %s\t\n", strings.Join(row, "\t"))
	}
	_ = tab.Flush()
	fmt.Fprintf(&text, "\nvalve: %s\n\n%s", a.Valve.Says, settings(a))
	_, err := io.WriteString(w, text.String())
	return err
}

// basis says where the class comes from.
func basis(a *advise.Advice) string {
	if a.Logged {
		return fmt.Sprintf("by the requests that were served, each %.0f s", a.Every)
	}
	return fmt.Sprintf("by a simulation under combined-load, each %.0f s", a.Every)
}

// simulated says how the choices were compared.
func simulated(a *advise.Advice) string {
	if len(a.Seeds) == 1 {
		return fmt.Sprintf("simulated with one seed of %d requests: no intervals", a.Requests)
	}
	return fmt.Sprintf("simulated with %d paired seeds of %d requests: mean and 95 %% interval", len(a.Seeds), a.Requests)
}

// uses is the table of what binds.
func uses(a *advise.Advice) [][]string {
	c := &a.Class
	percent := func(v float64) string {
		if math.IsNaN(v) {
			return "-"
		}
		return fmt.Sprintf("%.0f %%", 100*v)
	}
	rows := [][]string{{"", "nothing", "prefill", "decode", "slots", "kv"}, {"binds, of the time"}, {"mean use"}}
	for _, v := range c.Share {
		rows[1] = append(rows[1], percent(v))
	}
	rows[2] = append(rows[2], "", percent(float64(c.Prefill)), percent(float64(c.Decode)), percent(float64(c.Slots)), percent(float64(c.KV)))
	return rows
}

// longest is at most how many letters a strip has.
const longest = 60

// strip is what binds over time, a letter for each moment or, where there are many,
// for every so many of them.
func strip(moments []advise.Moment) string {
	every := max(1, (len(moments)+longest-1)/longest)
	var out strings.Builder
	for from := 0; from < len(moments); from += every {
		counts := map[advise.Resource]int{}
		most := moments[from].Binds
		for _, m := range moments[from:min(from+every, len(moments))] {
			if counts[m.Binds]++; counts[m.Binds] > counts[most] {
				most = m.Binds
			}
		}
		if most == advise.Nothing {
			out.WriteByte('.')
		} else {
			out.WriteByte(most.String()[0])
		}
	}
	return out.String()
}

// results is the table of what the policies would give.
func results(a *advise.Advice) [][]string {
	rows := [][]string{{"", "E2E mean s", "change %", "TTFT p50 s", "TTFT p90 s", "change %", "TPOT p90 ms", "prefix hits %", "failed %"}}
	for i := range a.Results {
		r := &a.Results[i]
		rows = append(rows, []string{
			r.Policy, value(r.E2E, 1), change(r.E2EChange, r.Policy == a.Matched), value(r.TTFTP50, 1), value(r.TTFTP90, 1),
			change(r.TTFTP90Change, r.Policy == a.Matched), value(r.TPOTP90, 1000), value(r.Hits, 100), value(r.Failed, 100),
		})
	}
	return rows
}

// value is an estimate with half of its interval.
func value(e advise.Estimate, scale float64) string {
	if math.IsNaN(e.Mean) {
		return "-"
	}
	text := fmt.Sprintf("%.3g", e.Mean*scale)
	if half := (e.High - e.Low) / 2; !math.IsNaN(half) {
		text += fmt.Sprintf(" ±%.2g", half*scale)
	}
	return text
}

// change is in percent, with its interval.
func change(c advise.Change, reference bool) string {
	switch {
	case reference:
		return "compared"
	case math.IsNaN(c.Mean):
		return "-"
	case math.IsNaN(c.Low):
		return fmt.Sprintf("%+.1f", 100*c.Mean)
	}
	return fmt.Sprintf("%+.1f [%+.1f, %+.1f]", 100*c.Mean, 100*c.Low, 100*c.High)
}

// settings is what to write into spillway.yaml.
func settings(a *advise.Advice) string {
	v := &a.Valve
	return fmt.Sprintf(`router:
  policy: %s
  fallback: %s
  settings:
    max_ttft_penalty: %.4g
    predicted_ttft_penalty: %.4g
    default_peak_prefill_throughput: %.0f
`, a.Recommended, a.Matched, v.Penalty, v.Predicted, v.Throughput)
}

// capital begins a sentence.
func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
