package main

import (
	"fmt"
	"io"
	"math"

	"github.com/spillway-llm/spillway/internal/bench"
)

// writeText writes everything as Markdown, which reads well in a terminal too.
func writeText(w io.Writer, r *bench.Report, studies []*study) {
	fmt.Fprintf(w, "# Policies, simulated\n\nMade by `%s`: %d endpoints, %d seeds. Changes are in percent against the better of token-load and active-request, chosen for each world with hindsight; in brackets 95 %% of the paired change over seeds.\n", r.Command, endpoints, len(r.Seeds))
	for _, m := range []metric{e2e, ttftP90} {
		fmt.Fprintf(w, "\n## %s by group\n\n| group |", m)
		for _, a := range arms {
			fmt.Fprintf(w, " %s |", a.name)
		}
		fmt.Fprintf(w, "\n|---|")
		for range arms {
			fmt.Fprint(w, "---:|")
		}
		fmt.Fprintln(w)
		for _, g := range groups {
			in := of(studies, g)
			if len(in) == 0 {
				continue
			}
			fmt.Fprintf(w, "| %s |", g)
			for _, a := range arms {
				fmt.Fprintf(w, " %s |", pooled(in, a.name, (*study).matched, m))
			}
			fmt.Fprintln(w)
		}
	}
	writeAblations(w, studies)
	for _, s := range studies {
		s.write(w)
	}
	fmt.Fprintln(w)
}

// write writes one world.
func (s *study) write(w io.Writer) {
	matched := s.matched()
	fmt.Fprintf(w, "\n## %s\n\n", s.world.name)
	if s.world.knee > 0 {
		fmt.Fprintf(w, "Loads are %v of the knee, %.3g %s. ", s.world.shares, s.world.knee, s.world.unit)
	}
	fmt.Fprintf(w, "Compared with %s.\n\n| load | arm | mean E2E s | | TTFT p90 s | | mean TTFT s | | TPOT p90 ms | slowdown | | failed | prefix hits %% |\n|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n", s.arms[matched].name)
	for l, load := range s.world.loads {
		for a := range arms {
			value := func(m metric) float64 { return s.mean(a, l, func(c cell) float64 { return c.Value[m] }) }
			changed := func(m metric) string {
				if a == matched {
					return ""
				}
				return changeOf(s.logs(a, matched, l, m)).String()
			}
			fmt.Fprintf(w, "| %.3g | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %.0f | %.0f |\n", load, s.arms[a].name,
				digits(value(e2e)), changed(e2e), digits(value(ttftP90)), changed(ttftP90), digits(value(ttft)), changed(ttft),
				digits(1000*value(tpotP90)), digits(value(slowdown)), changed(slowdown),
				s.mean(a, l, func(c cell) float64 { return float64(c.Failed) * float64(len(s.seeds)) }), 100*s.mean(a, l, func(c cell) float64 { return c.Hits }))
		}
	}
	fmt.Fprintf(w, "\nForests against the prior alone: mean E2E %s, TTFT p90 %s.\n",
		pooled([]*study{s}, predicted, against(priorAlone), e2e), pooled([]*study{s}, predicted, against(priorAlone), ttftP90))
	served := 0
	for _, l := range s.lessons {
		if l.bundle != nil {
			served++
		}
	}
	fmt.Fprintf(w, "Of %d fleets %d had a bundle that passed the gate.\n", len(s.lessons), served)
}

// mean is over seeds.
func (s *study) mean(arm, load int, of func(cell) float64) float64 {
	sum := 0.0
	for _, c := range s.cells[arm][load] {
		sum += of(c)
	}
	return sum / float64(len(s.seeds))
}

// digits writes three significant ones.
func digits(v float64) string {
	if math.Abs(v) >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
