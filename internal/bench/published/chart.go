package main

import (
	"math"
	"path/filepath"

	"github.com/spillway-llm/spillway/internal/bench"
	"github.com/spillway-llm/spillway/internal/plot"
)

// charts writes two plots of a study into a folder.
func (c comparison) charts(folder string) error {
	for _, x := range []struct {
		file, title, y string
		of             reads
		log            bool
	}{
		{"ttft", "TTFT p90", "seconds", ttft, true},
		{"throughput", "throughput", c.study.unit(), c.study.throughput, false},
	} {
		chart := plot.Chart{
			Title: c.study.name + ": " + x.title + " (solid: simulated, dashed: published)", Y: x.y, X: "clients", LogY: x.log,
			Width: 640, Height: 400,
		}
		if c.study.name == "b2b-saas" {
			chart.X = "requests/s"
		}
		for a, arm := range arms {
			chart.Lines = append(chart.Lines, line(arm.name, a, c.simulated, x.of))
			if c.study.arms[a] != "" {
				published := line(arm.name+" published", a, c.published, x.of)
				published.Dashed, published.Hollow = true, true
				chart.Lines = append(chart.Lines, published)
			}
		}
		path := filepath.Join(folder, "published-"+c.study.name+"-"+x.file+".svg")
		if err := bench.Write(path, []byte(chart.SVG())); err != nil {
			return err
		}
	}
	return nil
}

func line(name string, color int, l ladder, of reads) plot.Line {
	out := plot.Line{Name: name, Color: color}
	for i, c := range l.cells[color] {
		out.Points = append(out.Points, plot.Point{X: l.loads[i], Y: of(c), Low: math.NaN(), High: math.NaN()})
	}
	return out
}
