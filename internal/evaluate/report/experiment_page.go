package report

import (
	_ "embed"
	"html/template"
	"io"
	"math"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/evaluate/experiment"
	"github.com/spillway-llm/spillway/internal/plot"
)

//go:embed experiment.html
var experimentText string

var experimentPage = template.Must(template.Must(policyPage.Clone()).New("experiment").Parse(experimentText))

// WriteExperimentPage writes the same as one page that needs nothing but itself;
// command is what made it.
func WriteExperimentPage(w io.Writer, r *experiment.Report, command string) error {
	says := experimentSays(r)
	return experimentPage.ExecuteTemplate(w, "experiment", struct {
		Title, Command, Design string
		Says, Notes            []string
		Warnings, Caveats      []string
		Table                  table
		Charts                 []template.HTML
	}{
		Title: says[0], Command: command, Design: r.Design, Says: says[1:], Notes: experimentNotes(r), Warnings: r.Warnings, Caveats: experimentCaveats(r),
		Table: experimentTable(r), Charts: experimentCharts(r),
	})
}

func experimentCharts(r *experiment.Report) []template.HTML {
	if r.Split != nil {
		return splitCharts(r)
	}
	s := r.Switchback
	rows := plot.Rows{Title: r.Arms[1] + " instead of " + r.Arms[0], X: "relative difference, %, with 95 % intervals", Series: []string{"difference of pairs"}, Width: drawingWidth}
	var all []evaluate.Interval
	for i := range s.Effects {
		if s.Effects[i].Relative.Mean != s.Effects[i].Relative.Mean {
			continue
		}
		rows.Rows = append(rows.Rows, plot.Row{Label: measured[s.Effects[i].Quantity], Values: []plot.Value{percents(s.Effects[i].Relative)}})
		all = append(all, s.Effects[i].Relative)
	}
	rows.Least, rows.Most = axis(all)
	charts := []template.HTML{rows.SVG()}
	for i, q := range experiment.Quantities()[:2] {
		charts = append(charts, blockChart(r, i, measured[q]).SVG())
	}
	return append(charts, pairChart(r).SVG())
}

// percents is an interval on an axis of percent.
func percents(i evaluate.Interval) plot.Value {
	return plot.Value{At: 100 * float64(i.Mean), Low: 100 * float64(i.Low), High: 100 * float64(i.High)}
}

// axis is what intervals take, in percent, around 0 and with some room; what is
// far wider than most is drawn at the edge.
func axis(all []evaluate.Interval) (least, most float64) {
	least, most = -1, 1
	for _, i := range all {
		if p := percents(i); p.Low == p.Low && math.Abs(p.Low) < 300 && math.Abs(p.High) < 300 {
			least, most = min(least, p.Low), max(most, p.High)
		}
	}
	room := 0.06 * (most - least)
	return least - room, most + room
}

// blockChart shows one number of every block, by arm.
func blockChart(r *experiment.Report, quantity int, name string) plot.Chart {
	length, unit := blockSpan(r)
	chart := plot.Chart{Title: name + " of each block", X: unit + " since the start", Y: name + ", s", Width: drawingWidth}
	for arm, called := range r.Arms {
		line := plot.Line{Name: called, Color: arm}
		for _, b := range r.Switchback.Blocks {
			if b.Arm == arm {
				line.Points = append(line.Points, plot.Point{X: b.At.Sub(r.Switchback.Start).Seconds() / length, Y: float64(b.Values[quantity])})
			}
		}
		chart.Lines = append(chart.Lines, line)
	}
	return chart
}

// pairChart shows the difference in mean TTFT of every pair, and their mean.
func pairChart(r *experiment.Report) plot.Chart {
	length, unit := blockSpan(r)
	s := r.Switchback
	chart := plot.Chart{Title: "Difference in mean TTFT of each pair", X: unit + " since the start", Y: "s", Width: drawingWidth, Tight: true}
	line := plot.Line{Name: r.Arms[1] + " less " + r.Arms[0], Color: 0}
	for i := 0; i+1 < len(s.Blocks); i++ {
		a, b := &s.Blocks[i], &s.Blocks[i+1]
		if a.Number&1 != 0 || b.Number != a.Number+1 {
			continue
		}
		sign := float64(1 - 2*a.Arm)
		line.Points = append(line.Points, plot.Point{X: b.At.Sub(s.Start).Seconds() / length, Y: sign * float64(b.Values[0]-a.Values[0])})
	}
	if n := len(line.Points); n > 0 {
		d := s.Effects[0].Difference
		none, mean := plot.Line{Name: "none", Color: 6, Dashed: true, Bare: true}, plot.Line{Name: "mean, with its 95 % interval", Color: 1, Bare: true}
		for _, x := range []float64{line.Points[0].X, line.Points[n-1].X} {
			none.Points = append(none.Points, plot.Point{X: x})
			mean.Points = append(mean.Points, plot.Point{X: x, Y: float64(d.Mean), Low: float64(d.Low), High: float64(d.High)})
		}
		chart.Lines = append(chart.Lines, none, mean)
	}
	chart.Lines = append(chart.Lines, line)
	return chart
}

// blockSpan is in what unit of time an experiment is drawn, and how many seconds
// that is.
func blockSpan(r *experiment.Report) (float64, string) {
	switch long := r.Switchback.End.Sub(r.Switchback.Start).Hours(); {
	case long > 72:
		return 86400, "days"
	case long > 3:
		return 3600, "hours"
	case long > 0.1:
		return 60, "minutes"
	}
	return 1, "seconds"
}

// splitCharts lay both estimates side by side, and show what the horizon does.
func splitCharts(r *experiment.Report) []template.HTML {
	s := r.Split
	rows := plot.Rows{Title: r.Arms[1] + " instead of " + r.Arms[0], X: "relative difference, %, with 95 % intervals",
		Series: []string{"naive difference (biased)", "difference in Q"}, Width: drawingWidth}
	var all []evaluate.Interval
	for i := range s.Effects {
		e := &s.Effects[i]
		if e.NaiveRelative.Mean != e.NaiveRelative.Mean {
			continue
		}
		rows.Rows = append(rows.Rows, plot.Row{Label: measured[e.Quantity], Values: []plot.Value{percents(e.NaiveRelative), percents(e.DQRelative)}})
		all = append(all, e.NaiveRelative, e.DQRelative)
	}
	rows.Least, rows.Most = axis(all)
	charts := []template.HTML{rows.SVG()}
	for _, c := range s.Curves {
		chart := plot.Chart{Title: "Difference in Q of " + measured[c.Quantity] + " by horizon", X: "horizon, s (0: the request itself)", Y: "s", Width: drawingWidth, Tight: true, Unnamed: true}
		line := plot.Line{Name: "difference in Q"}
		for _, p := range c.Points {
			line.Points = append(line.Points, plot.Point{X: float64(p.Horizon), Y: float64(p.DQ.Mean), Low: float64(p.DQ.Low), High: float64(p.DQ.High)})
		}
		last := line.Points[len(line.Points)-1].X
		chart.Lines = append(chart.Lines, plot.Line{Name: "none", Color: 6, Dashed: true, Bare: true, Points: []plot.Point{{X: 0, Y: 0}, {X: last, Y: 0}}}, line)
		charts = append(charts, chart.SVG())
	}
	return charts
}
