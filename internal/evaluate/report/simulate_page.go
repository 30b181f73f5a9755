package report

import (
	_ "embed"
	"html/template"
	"io"
	"math"

	"github.com/spillway-llm/spillway/internal/evaluate/simulate"
	"github.com/spillway-llm/spillway/internal/plot"
)

//go:embed simulate.html
var simulateText string

var simulatePage = template.Must(pageOf("simulate", simulateText).Parse(tableTemplate))

// tableTemplate shows a table.
const tableTemplate = `{{define "table"}}<table><caption>{{.Title}}</caption><thead><tr>{{range .Head}}<th>{{.}}</th>{{end}}</tr></thead><tbody>
{{range .Rows}}<tr>{{range $i, $cell := .}}{{if $i}}<td>{{$cell}}</td>{{else}}<th>{{$cell}}</th>{{end}}{{end}}</tr>
{{end}}</tbody></table>{{end}}`

// WriteSimulationPage writes the same as one page that needs nothing but itself;
// command is what made it.
func WriteSimulationPage(w io.Writer, r *simulate.Report, command string) error {
	says := simulationSays(r)
	data := struct {
		Title, Command, Check string
		Says, Caveats         []string
		Kept                  bool
		Tables                []table
		Charts                []template.HTML
	}{
		Title: says[0], Command: command, Says: says[1:], Check: checkSays(r), Kept: r.Check.Trusted, Caveats: simulationCaveats,
		Tables: []table{checkTable(r)},
	}
	data.Charts = append(data.Charts, checkChart(r))
	if len(r.Settings) > 0 {
		data.Charts = append(data.Charts, effectsChart(r))
		data.Tables = append(data.Tables, effectsTable(r), metricsTable(r))
	}
	data.Tables = append(data.Tables, endpointsTable(r))
	return simulatePage.Execute(w, data)
}

// checkChart draws how far the replay is off, inside what it may be.
func checkChart(r *simulate.Report) template.HTML {
	chart := plot.Rows{Title: "The logged policy: replay over log, less 1", X: "percent; bars are what it may be", Series: []string{"replay"}, Width: 940}
	most := 0.0
	for i := range r.Check.Off {
		d := &r.Check.Off[i]
		chart.Rows = append(chart.Rows, plot.Row{Label: d.Metric + " " + d.Quantile, Values: []plot.Value{{At: 100 * float64(d.Off), Low: -100 * d.Most, High: 100 * d.Most}}})
		most = max(most, 100*math.Abs(float64(d.Off)), 100*d.Most)
	}
	chart.Least, chart.Most = -min(100, 1.2*most), min(200, 1.2*most)
	return chart.SVG()
}

// effectsChart draws the effects of every setting.
func effectsChart(r *simulate.Report) template.HTML {
	chart := plot.Rows{Title: "Against the replay of the logged policy, with 95 % intervals", X: "percent, of shares percentage points; less is better, but of the hit rate", Width: 940}
	least, most := 0.0, 0.0
	for i := range r.Settings {
		chart.Series = append(chart.Series, r.Settings[i].Name)
	}
	for k := range r.Settings[0].Effects {
		row := plot.Row{Label: r.Settings[0].Effects[k].Metric}
		for i := range r.Settings {
			c := r.Settings[i].Effects[k].Change
			v := plot.Value{At: 100 * float64(c.Mean), Low: 100 * float64(c.Low), High: 100 * float64(c.High)}
			row.Values = append(row.Values, v)
			if !math.IsNaN(v.At) {
				least, most = min(least, v.At-10), max(most, v.At+10)
			}
			if v.Low == v.Low {
				least, most = min(least, max(-100, v.Low)), max(most, min(2*v.At+100, v.High))
			}
		}
		chart.Rows = append(chart.Rows, row)
	}
	chart.Least, chart.Most = least, most
	return chart.SVG()
}
