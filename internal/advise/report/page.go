package report

import (
	_ "embed"
	"html/template"
	"io"
	"math"

	"github.com/spillway-llm/spillway/internal/advise"
	"github.com/spillway-llm/spillway/internal/plot"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// caveats are what the numbers don't hold.
func caveats(a *advise.Advice) []string {
	engines := "Each seed draws engines of which every coefficient differs by up to 25 % from the profile, so the intervals hold that, and chance, but nothing that the model lacks."
	if a.Logged {
		engines = "They were fitted to the log, to another part of it with each seed, so the intervals hold how little the log tells, and chance, but nothing that the model lacks."
	}
	return []string{
		"Engines are simulated from a step model with five coefficients. " + engines,
		"Predicted is simulated on the analytic prior, without forests: what a trained bundle adds is not in it.",
		"The traffic is what it was: it doesn't answer to slower or faster service, but for sessions and closed loops, whose next turn waits for the answer before.",
		"Policies are compared by mean end-to-end latency. Where TTFT matters more to you, read its column.",
	}
}

// WritePage writes the same as one page that needs nothing but itself.
func WritePage(w io.Writer, s Subject, a *advise.Advice) error {
	data := struct {
		Subject          Subject
		Advice           *advise.Advice
		Why, Caveats     []string
		Basis, Simulated string
		Use, Bars, Parts template.HTML
		Uses, Results    [][]string
		Valve, Settings  string
	}{
		Subject: s, Advice: a, Caveats: caveats(a),
		Basis: capital(basis(a)), Simulated: capital(simulated(a)),
		Use: use(a), Bars: bars(a).SVG(), Parts: parts(a).SVG(),
		Uses: uses(a), Results: results(a), Valve: capital(a.Valve.Says), Settings: settings(a),
	}
	for _, why := range a.Why {
		data.Why = append(data.Why, capital(why))
	}
	return page.Execute(w, data)
}

// bars compares the policies by their changes.
func bars(a *advise.Advice) plot.Rows {
	rows := plot.Rows{
		Title: "Against " + a.Matched + " on equal requests", X: "change in %, with its 95 % interval; less is better",
		Series: advise.Policies, Least: -10, Most: 10, Width: pageWidth,
	}
	for _, m := range []struct {
		says string
		of   func(*advise.Result) advise.Change
	}{
		{"mean E2E", func(r *advise.Result) advise.Change { return r.E2EChange }},
		{"TTFT p90", func(r *advise.Result) advise.Change { return r.TTFTP90Change }},
		{"TPOT p90", func(r *advise.Result) advise.Change { return r.TPOTP90Change }},
	} {
		row := plot.Row{Label: m.says}
		for i := range a.Results {
			c := m.of(&a.Results[i])
			row.Values = append(row.Values, plot.Value{At: 100 * c.Mean, Low: 100 * c.Low, High: 100 * c.High})
			for _, v := range []float64{c.Mean, c.Low, c.High} {
				if !math.IsNaN(v) {
					rows.Least, rows.Most = min(rows.Least, 100*max(v, -1)), max(rows.Most, 100*min(v, 1))
				}
			}
		}
		rows.Rows = append(rows.Rows, row)
	}
	return rows
}

// parts shows the changes in mean E2E over time.
func parts(a *advise.Advice) plot.Chart {
	chart := plot.Chart{
		Title: "Mean E2E against " + a.Matched + ", by when requests were sent", X: "% of the time", Y: "change in %, drawn up to 200",
		Width: pageWidth, Height: 280,
	}
	for i := range a.Results {
		r := &a.Results[i]
		line := plot.Line{Name: r.Policy, Color: i}
		for k, c := range r.Parts {
			drawn := func(v float64) float64 { return 100 * min(v, 2) } // else one part without shape hides all others
			line.Points = append(line.Points, plot.Point{X: 100 * (float64(k) + 0.5) / float64(len(r.Parts)), Y: drawn(c.Mean), Low: drawn(c.Low), High: drawn(c.High)})
		}
		chart.Lines = append(chart.Lines, line)
	}
	return chart
}
