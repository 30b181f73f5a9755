package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"

	"github.com/spillway-llm/spillway/internal/advise"
	"github.com/spillway-llm/spillway/internal/plot"
)

// Of the drawing of use over time, in pixels.
const (
	pageWidth = 980
	left      = 56
	right     = 16
	plotTop   = 62
	plotHigh  = 220
	stripHigh = 16 // what binds, below
)

// colors are those of resources; nothing is grey.
var colors = map[advise.Resource]string{
	advise.Nothing: "#d9d9d6", advise.Prefill: plot.Color(1), advise.Decode: plot.Color(0), advise.Slots: plot.Color(2), advise.KV: plot.Color(3),
}

// use draws the shares of the endpoints' time, on each other, with how full batches
// and caches are as lines, and what binds as a strip below.
func use(a *advise.Advice) template.HTML {
	n := len(a.Moments)
	width := float64(pageWidth - left - right)
	x := func(i int) float64 { return left + width*float64(i)/float64(max(n, 1)) }
	y := func(v float64) float64 { return plotTop + plotHigh*(1-v) }
	height := plotTop + plotHigh + stripHigh + 62
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="system-ui, sans-serif" font-size="11" fill="#333">`+"\n", pageWidth, height, pageWidth, height)
	fmt.Fprintf(&s, `<rect width="%d" height="%d" fill="#ffffff"/><text x="16" y="20" font-size="13" font-weight="600">Use of the fleet over time, and what binds</text>`+"\n", pageWidth, height)
	at := 16.0
	for _, entry := range []struct {
		of   advise.Resource
		says string
		line bool
	}{
		{advise.Prefill, "time for prefill", false}, {advise.Decode, "time for decoding", false},
		{advise.Slots, "places in the batch", true}, {advise.KV, "KV cache", true}, {advise.Nothing, "nothing binds", false},
	} {
		if entry.line {
			fmt.Fprintf(&s, `<line x1="%.1f" y1="38" x2="%.1f" y2="38" stroke="%s" stroke-width="2"/>`, at, at+14, colors[entry.of])
		} else {
			fmt.Fprintf(&s, `<rect x="%.1f" y="33" width="14" height="10" fill="%s"/>`, at, colors[entry.of])
		}
		fmt.Fprintf(&s, `<text x="%.1f" y="42">%s</text>`+"\n", at+19, entry.says)
		at += 40 + 6.2*float64(len(entry.says))
	}
	for _, v := range []float64{0, 0.25, 0.5, 0.75, 1} {
		fmt.Fprintf(&s, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#e6e6e6"/><text x="%d" y="%.1f" text-anchor="end" fill="#666">%.0f %%</text>`+"\n", left, y(v), pageWidth-right, y(v), left-6, y(v)+4, 100*v)
	}
	// Steps: a moment is as wide as it lasts.
	area := func(low, high func(m *advise.Moment) float64, color string) {
		var up, down strings.Builder
		for i := range a.Moments {
			m := &a.Moments[i]
			fmt.Fprintf(&up, "%.1f,%.1f %.1f,%.1f ", x(i), y(high(m)), x(i+1), y(high(m)))
		}
		for i := n - 1; i >= 0; i-- {
			m := &a.Moments[i]
			fmt.Fprintf(&down, "%.1f,%.1f %.1f,%.1f ", x(i+1), y(low(m)), x(i), y(low(m)))
		}
		fmt.Fprintf(&s, `<polygon points="%s%s" fill="%s" opacity="0.75"/>`+"\n", up.String(), strings.TrimSpace(down.String()), color)
	}
	none := func(*advise.Moment) float64 { return 0 }
	prefill := func(m *advise.Moment) float64 { return m.Prefill }
	both := func(m *advise.Moment) float64 { return m.Prefill + m.Decode }
	area(none, prefill, colors[advise.Prefill])
	area(prefill, both, colors[advise.Decode])
	line := func(of func(*advise.Moment) float64, color string) {
		var path strings.Builder
		move := "M"
		for i := range a.Moments {
			v := of(&a.Moments[i])
			if math.IsNaN(v) {
				move = "M"
				continue
			}
			fmt.Fprintf(&path, "%s%.1f %.1f H%.1f ", move, x(i), y(min(v, 1)), x(i+1))
			move = "L"
		}
		if path.Len() > 0 {
			fmt.Fprintf(&s, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.TrimSpace(path.String()), color)
		}
	}
	line(func(m *advise.Moment) float64 { return m.Slots }, colors[advise.Slots])
	line(func(m *advise.Moment) float64 { return m.KV }, colors[advise.KV])
	top := float64(plotTop + plotHigh + 6)
	for from := 0; from < n; {
		to := from + 1
		for to < n && a.Moments[to].Binds == a.Moments[from].Binds {
			to++
		}
		fmt.Fprintf(&s, `<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="%s"><title>%s binds</title></rect>`+"\n", x(from), top, x(to)-x(from), stripHigh, colors[a.Moments[from].Binds], a.Moments[from].Binds)
		from = to
	}
	fmt.Fprintf(&s, `<text x="%d" y="%.1f" text-anchor="end" fill="#666">binds</text>`+"\n", left-6, top+12)
	unit, seconds := "minutes", 60.0
	if total := a.Every * float64(n); total < 180 {
		unit, seconds = "seconds", 1
	}
	length := a.Every * float64(n) / seconds
	for at, step := 0.0, stepOf(length); at <= length; at += step {
		fmt.Fprintf(&s, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#666">%g</text>`+"\n", left+width*at/max(length, 1e-9), top+stripHigh+15, at)
	}
	fmt.Fprintf(&s, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#666">%s since the first request</text>`+"\n</svg>\n", left+width/2, top+stripHigh+33, unit)
	return template.HTML(s.String())
}

// stepOf is a round number that fits into a length four to ten times.
func stepOf(length float64) float64 {
	step := 1.0
	for _, more := range []float64{2, 2.5, 2} { // 1, 2, 5, 10
		if length/step > 10 {
			step *= more
		}
	}
	for length/step > 10 {
		step *= 2
	}
	return step
}
