package simreport

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"

	"github.com/spillway-llm/spillway/internal/plot"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// WriteHTML writes one page that needs nothing but itself.
func (r Results) WriteHTML(w io.Writer) error {
	c := r.cells()
	type row struct {
		Says  string
		Cells []string
		Stars []bool
	}
	type block struct {
		Load string
		Rows []row
	}
	data := struct {
		Results
		Seeded         string
		Charts, Series []template.HTML
		SeriesLoad     string
		Many           bool
		Blocks         []block
	}{Results: r, Seeded: r.seeded()}
	for _, name := range []string{ttftP90, tpotP90, input, output, hits, goodput, slowdown} {
		data.Charts = append(data.Charts, r.chart(c, name).SVG())
	}
	for _, load := range r.Loads {
		b := block{Load: amount(load)}
		for _, m := range Metrics() {
			line := row{Says: m.Says}
			for _, arm := range r.Arms {
				cell := c.at(m, arm, load)
				line.Cells = append(line.Cells, m.text(cell.Value))
				line.Stars = append(line.Stars, cell.Change.Differs())
			}
			b.Rows = append(b.Rows, line)
		}
		data.Blocks = append(data.Blocks, b)
	}
	if load, ok := r.watched(); ok {
		data.SeriesLoad, data.Many = amount(load), r.many()
		data.Series = r.series(c, load)
	}
	return page.Execute(w, data)
}

// chart shows a metric against load for every arm.
func (r Results) chart(c cells, name string) plot.Chart {
	all := Metrics()
	m := all[slices.IndexFunc(all, func(m Metric) bool { return m.Name == name })]
	chart := plot.Chart{Title: m.Says, X: r.Unit, LogY: name == ttftP90 || name == slowdown}
	for i, arm := range r.Arms {
		line := plot.Line{Name: arm, Color: i}
		for _, load := range r.Loads {
			e := c.at(m, arm, load).Value
			line.Points = append(line.Points, plot.Point{X: load, Y: m.shown(e.Mean), Low: m.shown(e.Low), High: m.shown(e.High)})
		}
		line.Points = plot.Sorted(line.Points)
		chart.Lines = append(chart.Lines, line)
	}
	return chart
}

// watched is the load whose endpoints are drawn over time: the highest at which
// every arm still served 98 % of its requests with the first seed, else the lowest.
func (r Results) watched() (float64, bool) {
	least := math.Inf(1)
	served := map[float64]bool{}
	for _, run := range r.Runs {
		if run.Series == nil || run.Seed != r.Seeds[0] {
			continue
		}
		least = min(least, run.Load)
		ok := float64(run.Summary.Success) >= 0.98
		if before, seen := served[run.Load]; seen {
			ok = ok && before
		}
		served[run.Load] = ok
	}
	best := least
	for load, ok := range served {
		if ok {
			best = max(best, load)
		}
	}
	return best, !math.IsInf(best, 1)
}

// manyEndpoints is above how many endpoints their least, median and greatest
// load are drawn instead of each one's.
const manyEndpoints = 24

// series draws the load of the endpoints over time, one chart for each arm, all
// with the same height of the axis.
func (r Results) series(c cells, load float64) []template.HTML {
	var charts []template.HTML
	most := 0.0
	for _, run := range r.Runs {
		if run.Load == load && run.Series != nil {
			for _, all := range run.Series.InFlight {
				most = max(most, slices.Max(all))
			}
		}
	}
	for i, arm := range r.Arms {
		run := c.runs[key{arm, load, r.Seeds[0]}]
		if run == nil || run.Series == nil || len(run.Series.InFlight) == 0 {
			continue
		}
		s := run.Series
		chart := plot.Chart{Title: arm + ": in flight by endpoint", X: "seconds", Most: most}
		if !r.many() {
			for e := range s.InFlight[0] {
				chart.Lines = append(chart.Lines, s.line("", i, func(all []float64) float64 { return all[e] }))
			}
			chart.Unnamed = true
		} else {
			for q, name := range []string{"least", "median", "greatest"} {
				chart.Lines = append(chart.Lines, s.line(name, q, func(all []float64) float64 {
					sorted := slices.Sorted(slices.Values(all))
					return sorted[q*(len(sorted)-1)/2]
				}))
			}
		}
		charts = append(charts, chart.SVG())
	}
	return charts
}

func (r Results) many() bool {
	return slices.ContainsFunc(r.Runs, func(run Run) bool {
		return run.Series != nil && len(run.Series.InFlight) > 0 && len(run.Series.InFlight[0]) > manyEndpoints
	})
}

// drawn is at most how many moments of a series are drawn.
const drawn = 240

func (s *Series) line(name string, color int, of func([]float64) float64) plot.Line {
	line := plot.Line{Name: name, Color: color, Bare: true, Thin: true}
	stride := (len(s.InFlight) + drawn - 1) / drawn
	for i := 0; i < len(s.InFlight); i += stride {
		at := s.Every.Seconds() * float64(i)
		line.Points = append(line.Points, plot.Point{X: at, Y: of(s.InFlight[i]), Low: math.NaN()})
	}
	return line
}

// seeded says how many seeds there are.
func (r Results) seeded() string {
	if len(r.Seeds) == 1 {
		return fmt.Sprintf("one seed (%d), so without intervals", r.Seeds[0])
	}
	return fmt.Sprintf("%d paired seeds (%d to %d), mean and 95 %% interval", len(r.Seeds), r.Seeds[0], r.Seeds[len(r.Seeds)-1])
}
