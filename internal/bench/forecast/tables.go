package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
)

// printed is a table of the report.
type printed interface{ print(io.Writer) error }

// aligned prints the head and then what rows print, aligned.
func aligned(w io.Writer, title, head string, rows func(io.Writer)) error {
	fmt.Fprintln(w, title)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, head)
	rows(tw)
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

// judgedTable is the series side by side on the rows of one scenario.
type judgedTable struct {
	Title  string          `json:"title"`
	Report evaluate.Report `json:"report"`
}

// judgedBy keeps of a report what its table shows.
func judgedBy(title string, r evaluate.Report) judgedTable {
	for i := range r.Series {
		s := &r.Series[i]
		for _, q := range []*evaluate.Quality{&s.TTFT, &s.TPOT} {
			q.ByEndpoint, q.ByPrompt, q.Reliability, q.Over = nil, nil, nil, nil
			if i < len(r.Series)-1 {
				q.ByLoad = nil
			}
		}
	}
	return judgedTable{title, r}
}

func (t judgedTable) print(w io.Writer) error {
	err := aligned(w, t.Title, "latency\tforecast\trows\tMAPE\tmedian\tWAPE\tp90 covers\tp90/p50\tbias\tspread\trange\tpairs in order\t", func(w io.Writer) {
		for _, latency := range []string{"TTFT", "TPOT"} {
			for _, s := range t.Report.Series {
				q := s.TTFT
				if latency == "TPOT" {
					q = s.TPOT
				}
				a := q.All
				fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%.2f\t%.2f\t%s\t%s\t%s\t\n", latency, s.Name, a.Rows, share(a.MAPE), share(a.MedianAPE), share(a.WAPE),
					share(a.Coverage.Share), a.Width, a.Bias, share(q.BiasSpread.Typical), share(q.BiasSpread.Range), share(q.Concordance.Mean))
			}
		}
	})
	if err != nil {
		return err
	}
	last := t.Report.Series[len(t.Report.Series)-1]
	return aligned(w, "TTFT of "+last.Name+", by requests in flight", "in flight\trows\tcensored\tmedian\tp90 covers\tp90/p50\tbias\tactual/forecast p10\tp50\tp90\t", func(w io.Writer) {
		for _, g := range last.TTFT.ByLoad {
			fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", g.Name, g.Rows, g.Censored, share(g.MedianAPE), share(g.Coverage.Share), g.Width, g.Bias, g.RatioP10, g.RatioP50, g.RatioP90)
		}
	})
}

// settlingTable is how the error of newcomers settles.
type settlingTable struct {
	Title string        `json:"title"`
	Rows  []settlingRow `json:"rows"`
}

type settlingRow struct {
	When   string         `json:"when"`
	Rows   int            `json:"rows"`
	Median feature.Number `json:"median_ape"`
}

func (t settlingTable) print(w io.Writer) error {
	return aligned(w, t.Title, "when\trows\tmedian\t", func(w io.Writer) {
		for _, r := range t.Rows {
			fmt.Fprintf(w, "%s\t%d\t%s\t\n", r.When, r.Rows, share(r.Median))
		}
	})
}

// regretTable is what ways to choose lost against the best alternative.
type regretTable struct {
	Title string      `json:"title"`
	Rows  []regretRow `json:"rows"`
}

type regretRow struct {
	Latency     string             `json:"latency"`
	Contender   string             `json:"contender"`
	Choice      evaluate.Choice    `json:"choice"`
	Concordance *evaluate.Interval `json:"concordance,omitempty"`
}

func (t regretTable) print(w io.Writer) error {
	return aligned(w, t.Title, "latency\tchoice\tdecisions\tmean loss s\t95 %\tof the best\tbest chosen\tcandidates in order\t", func(w io.Writer) {
		for _, r := range t.Rows {
			order := ""
			if r.Concordance != nil {
				order = share(r.Concordance.Mean)
			}
			m := r.Choice.Mean
			fmt.Fprintf(w, "%s\t%s\t%d\t%.2f\t%.2f-%.2f\t%s\t%s\t%s\t\n", r.Latency, r.Contender, r.Choice.Decisions, m.Mean, m.Low, m.High,
				share(r.Choice.Relative), share(r.Choice.Best.Share), order)
		}
	})
}

func share(x feature.Number) string { return percent(float64(x)) }
