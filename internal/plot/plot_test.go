package plot_test

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spillway-llm/spillway/internal/plot"
)

// elements parses a drawing and counts its elements by name.
func elements(t interface{ Fatalf(string, ...any) }, svg string) map[string]int {
	count := map[string]int{}
	for dec := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return count
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, svg)
		}
		if start, ok := token.(xml.StartElement); ok {
			count[start.Name.Local]++
		}
	}
}

func TestChartDrawsWhatItIsGiven(t *testing.T) {
	nan := math.NaN()
	chart := plot.Chart{
		Title: `TTFT p90 <"&> load`, X: "clients", Y: "seconds",
		Lines: []plot.Line{
			{Name: "a", Points: []plot.Point{{1, 2, 1, 3}, {2, 4, 3, 5}, {3, 8, 7, 9}}},
			{Name: "b", Color: 1, Dashed: true, Points: []plot.Point{{1, 1, nan, nan}, {2, nan, nan, nan}, {3, 2, nan, nan}}},
		},
	}
	svg := string(chart.SVG())
	got := elements(t, svg)
	// Three and two markers with one in each row of the legend; a band and three
	// whiskers of a; the gap in b leaves two paths.
	if got["circle"] != 3+2+2 || got["polygon"] != 1 || got["path"] != 1+2 {
		t.Errorf("drew %v", got)
	}
	if !strings.Contains(svg, "TTFT p90 &lt;") || !strings.Contains(svg, "a: 4 at 2") {
		t.Errorf("title or tooltip is missing:\n%s", svg)
	}
	if svg != string(chart.SVG()) {
		t.Error("the same chart gave other bytes")
	}
}

func TestChartWithoutPointsSaysSo(t *testing.T) {
	svg := string(plot.Chart{Title: "empty", LogY: true, Lines: []plot.Line{{Points: []plot.Point{{X: 1, Y: 0}}}}}.SVG())
	elements(t, svg)
	if !strings.Contains(svg, "nothing measured") {
		t.Error(svg)
	}
}

// A tight axis begins where the values do, any other at 0.
func TestTightAxis(t *testing.T) {
	chart := plot.Chart{Lines: []plot.Line{{Points: []plot.Point{{X: 1, Y: 0.8}, {X: 2, Y: 0.95}}}}}
	if svg := string(chart.SVG()); !strings.Contains(svg, ">0.2<") {
		t.Errorf("no tick at 0.2:\n%s", svg)
	}
	chart.Tight = true
	if svg := string(chart.SVG()); strings.Contains(svg, ">0.2<") || !strings.Contains(svg, ">0.95<") {
		t.Errorf("want ticks about the values alone:\n%s", svg)
	}
}

// Whatever the numbers, the drawing is well-formed, holds no number that is none,
// and keeps every mark inside.
func TestChartIsAlwaysWellFormed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Float64Range(-1e6, 1e6), rapid.Float64Range(1e-6, 1), rapid.SampledFrom([]float64{0, 5, math.NaN(), math.Inf(1)}))
		point := rapid.Custom(func(t *rapid.T) plot.Point {
			return plot.Point{X: value.Draw(t, "x"), Y: value.Draw(t, "y"), Low: value.Draw(t, "low"), High: value.Draw(t, "high")}
		})
		line := rapid.Custom(func(t *rapid.T) plot.Line {
			return plot.Line{Name: rapid.StringMatching(`[ -~]{0,40}`).Draw(t, "name"), Points: plot.Sorted(rapid.SliceOfN(point, 0, 6).Draw(t, "points")), Color: rapid.Int().Draw(t, "color")}
		})
		chart := plot.Chart{Title: "t", Lines: rapid.SliceOfN(line, 0, 5).Draw(t, "lines"), LogY: rapid.Bool().Draw(t, "log"), Tight: rapid.Bool().Draw(t, "tight")}
		svg := string(chart.SVG())
		elements(t, svg)
		for dec := xml.NewDecoder(strings.NewReader(svg)); ; {
			token, err := dec.Token()
			if err != nil {
				break
			}
			start, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			for _, a := range start.Attr {
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Fatalf("%s has %s=%q", start.Name.Local, a.Name.Local, a.Value)
				}
			}
		}
	})
}
