package report

import (
	_ "embed"
	"html/template"
	"io"
	"math"
	"strings"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/plot"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// part is one report on the page.
type part struct {
	Says    string
	LeftOut []evaluate.Left
	Series  []named
	Targets []shown
}

type named struct{ Name, Says string }

// shown is one quantity of a report.
type shown struct {
	Name     string
	Empty    bool
	Compared table
	Charts   []template.HTML
	Details  []table
}

// WritePage writes one page that needs nothing but itself; command is what made
// it.
func WritePage(w io.Writer, reports []evaluate.Report, command string) error {
	data := struct {
		Title, Command string
		Parts          []part
	}{Command: command}
	for i := range reports {
		r := &reports[i]
		p := part{Says: says(r), LeftOut: r.LeftOut}
		for _, s := range r.Series {
			p.Series = append(p.Series, named{s.Name, series[s.Name]})
		}
		for _, t := range targets {
			p.Targets = append(p.Targets, show(r, t))
		}
		data.Parts = append(data.Parts, p)
		data.Title = r.LLM
	}
	return page.Execute(w, data)
}

func show(r *evaluate.Report, t target) shown {
	s := shown{Name: t.name, Empty: t.of(chief(r)).All.Rows == 0}
	if s.Empty {
		return s
	}
	s.Compared, s.Details = compared(r, t), details(r, t)
	for _, chart := range []plot.Chart{overTime(r, t), reliability(r, t), residuals(r, t), coverage(r, t)} {
		s.Charts = append(s.Charts, chart.SVG())
	}
	return s
}

// overTime shows what came beside what the chief series said.
func overTime(r *evaluate.Report, t target) plot.Chart {
	q := t.of(chief(r))
	chart := plot.Chart{Title: t.name + ": forecast and actual over time", Y: "seconds, median of a moment", LogY: true, Width: 940}
	length, unit := span(q.Over)
	chart.X = unit + " since the first that is judged"
	for i, line := range []struct {
		name   string
		of     func(*evaluate.Moment) feature.Number
		dashed bool
		color  int
	}{
		{"actual", func(m *evaluate.Moment) feature.Number { return m.Actual }, false, 6},
		{"actual, p90", func(m *evaluate.Moment) feature.Number { return m.High }, true, 6},
		{"forecast p50", func(m *evaluate.Moment) feature.Number { return m.P50 }, false, 0},
		{"forecast p90", func(m *evaluate.Moment) feature.Number { return m.P90 }, true, 0},
	} {
		l := plot.Line{Name: line.name, Color: line.color, Dashed: line.dashed, Bare: true, Thin: i%2 == 1}
		for j := range q.Over {
			m := &q.Over[j]
			l.Points = append(l.Points, plot.Point{X: m.At.Sub(q.Over[0].At).Seconds() / length, Y: float64(line.of(m))})
		}
		chart.Lines = append(chart.Lines, l)
	}
	return chart
}

// span is in what unit of time a run is drawn, and how many seconds that is.
func span(over []evaluate.Moment) (float64, string) {
	long := 0.0
	if n := len(over); n > 0 {
		long = over[n-1].At.Sub(over[0].At).Hours()
		if evaluate.IsCounted(over[0].At) {
			return evaluate.Counted(1).Sub(evaluate.Counted(0)).Seconds(), "rows"
		}
	}
	switch {
	case long > 72:
		return 86400, "days"
	case long > 3:
		return 3600, "hours"
	case long > 0.1:
		return 60, "minutes"
	}
	return 1, "seconds"
}

// reliability shows how often what was claimed came true.
func reliability(r *evaluate.Report, t target) plot.Chart {
	chart := plot.Chart{Title: t.name + ": reliability", X: "claimed quantile", Y: "share of actuals at or below"}
	chart.Lines = append(chart.Lines, plot.Line{Name: "perfect", Color: 6, Dashed: true, Bare: true, Points: []plot.Point{{X: 0, Y: 0}, {X: 1, Y: 1}}})
	for i := range r.Series {
		line := plot.Line{Name: r.Series[i].Name, Color: i, Points: []plot.Point{{X: 0, Y: 0}}}
		for _, x := range t.of(&r.Series[i]).Reliability {
			line.Points = append(line.Points, plot.Point{X: x.Claimed, Y: float64(x.Came)})
		}
		if len(line.Points) > 1 {
			chart.Lines = append(chart.Lines, line)
		}
	}
	return chart
}

// byDecile draws one number of each decile of load for every series.
func byDecile(r *evaluate.Report, t target, chart plot.Chart, level float64, of func(*evaluate.Scores) plot.Point) plot.Chart {
	chart.X = "decile of " + strings.ReplaceAll(r.Load, "_", " ") + ", least first"
	most := 0
	for i := range r.Series {
		line := plot.Line{Name: r.Series[i].Name, Color: i}
		groups := t.of(&r.Series[i]).ByLoad
		known := false
		for j := range groups {
			p := of(&groups[j].Scores)
			p.X = float64(j+1) + 0.08*(float64(i)-float64(len(r.Series)-1)/2) // side by side
			line.Points = append(line.Points, p)
			known = known || p.Y == p.Y
		}
		most = max(most, len(groups))
		if known {
			chart.Lines = append(chart.Lines, line)
		}
	}
	perfect := plot.Line{Name: "perfect", Color: 6, Dashed: true, Bare: true, Points: []plot.Point{{X: 0.8, Y: level}, {X: float64(most) + 0.2, Y: level}}}
	chart.Lines = append([]plot.Line{perfect}, chart.Lines...)
	return chart
}

func residuals(r *evaluate.Report, t target) plot.Chart {
	chart := plot.Chart{Title: t.name + ": actual / forecast, median with p10 to p90", Y: "ratio", LogY: true}
	return byDecile(r, t, chart, 1, func(s *evaluate.Scores) plot.Point {
		return plot.Point{Y: float64(s.RatioP50), Low: float64(s.RatioP10), High: float64(s.RatioP90)}
	})
}

func coverage(r *evaluate.Report, t target) plot.Chart {
	chart := plot.Chart{Title: t.name + ": p90 coverage with 99 % intervals", Y: "share at or below the p90", Tight: true}
	return byDecile(r, t, chart, 0.9, func(s *evaluate.Scores) plot.Point {
		if s.Coverage.Of == 0 {
			return plot.Point{Y: math.NaN()}
		}
		return plot.Point{Y: float64(s.Coverage.Share), Low: float64(s.Coverage.Low), High: float64(s.Coverage.High)}
	})
}
