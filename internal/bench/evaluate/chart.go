package main

import (
	"fmt"
	"html/template"
	"math"
	"strings"

	"github.com/spillway-llm/spillway/internal/plot"
)

// charted are the instruments that are drawn, in order of reading.
var charted = []instrument{naive, direct, doublyRobust, priced, splitNaive, splitDQ, switchback, anyway}

// Of the drawing, in pixels.
const (
	panel       = 210
	panelApart  = 34
	panelHead   = 24
	chartHead   = 62
	chartLeft   = 52
	chartBottom = 44
	inARow      = 4
)

// The axes are of the logarithm of 1 + effect, from half to three times; what lies
// beyond is drawn at the edge.
var (
	leastLog, mostLog = math.Log(0.5), math.Log(3)
	ticks             = []float64{-0.5, -0.25, 0, 0.5, 1, 2}
)

// scatter draws what each instrument says of each pair against what is true, of
// mean E2E: on the diagonal it is right.
func scatter(all []*pair) template.HTML {
	rows := (len(charted) + inARow - 1) / inARow
	width := chartLeft + inARow*(panel+panelApart)
	height := chartHead + rows*(panel+panelHead+panelApart) + chartBottom
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" font-family="system-ui, sans-serif" font-size="10.5" fill="#333">`+"\n", width, height)
	fmt.Fprintf(&s, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	label(&s, chartLeft-24, 22, "start", `font-size="14" font-weight="600"`, "What instruments say of the effect on mean E2E, against what it is")
	for i, name := range []string{"worlds that a fitted model can be right about", "worlds with a mechanism that it lacks", "the fitted fleet's check on the log failed"} {
		x := float64(chartLeft - 18 + []int{0, 290, 540}[i])
		mark(&s, x, 40, i != 1, i == 2)
		label(&s, x+9, 44, "start", "", name)
	}
	for i, of := range charted {
		x := float64(chartLeft + i%inARow*(panel+panelApart))
		y := float64(chartHead + panelHead + i/inARow*(panel+panelHead+panelApart))
		drawPanel(&s, x, y, of, all)
	}
	label(&s, float64(width)/2, float64(height)-12, "middle", `fill="#666"`, "true effect; the vertical axis is the estimate, with its 95 % interval")
	s.WriteString("</svg>\n")
	return template.HTML(s.String())
}

// drawPanel draws one instrument, with the upper left corner of its axes given.
func drawPanel(s *strings.Builder, left, top float64, of instrument, all []*pair) {
	at := func(effect float64) float64 {
		v := leastLog
		if effect > -1 {
			v = min(max(math.Log1p(effect), leastLog), mostLog)
		}
		return (v - leastLog) / (mostLog - leastLog) * panel
	}
	label(s, left, top-8, "start", `font-weight="600"`, of.String())
	for _, t := range ticks {
		fmt.Fprintf(s, `<path d="M%.1f %.1f v%d M%.1f %.1f h%d" stroke="#e9e9e9"/>`+"\n", left+at(t), top, panel, left, top+panel-at(t), panel)
		label(s, left+at(t), top+panel+14, "middle", `fill="#666"`, tick(t))
		if left == chartLeft {
			label(s, left-6, top+panel-at(t)+4, "end", `fill="#666"`, tick(t))
		}
	}
	fmt.Fprintf(s, `<path d="M%.1f %.1f l%d -%d M%.1f %.1f v%d M%.1f %.1f h%d" stroke="#999" fill="none"/>`+"\n",
		left, top+panel, panel, panel, left+at(0), top, panel, left, top+panel-at(0), panel)
	for _, p := range all {
		e, truth := &p.estimates[of][e2e], p.effect(of, e2e).Mean
		if !e.known() {
			continue
		}
		x := left + at(truth)
		fmt.Fprintf(s, `<path d="M%.1f %.1f V%.1f" stroke="%s" stroke-width="1" opacity="0.35"/>`+"\n",
			x, top+panel-at(e.effect.Low), top+panel-at(e.effect.High), hue(p.world.plain()))
		mark(s, x, top+panel-at(e.effect.Mean), p.world.plain(), of == anyway && !p.estimates[simulator][e2e].known())
	}
}

func tick(effect float64) string {
	if effect == 0 {
		return "0"
	}
	return fmt.Sprintf("%+.0f %%", 100*effect)
}

// mark is one pair: hollow where the instrument would rather not say.
func mark(s *strings.Builder, x, y float64, plain, doubtful bool) {
	fill := hue(plain)
	if doubtful {
		fill = "#ffffff"
	}
	fmt.Fprintf(s, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s" stroke="%s" stroke-width="1.2" opacity="0.85"/>`+"\n", x, y, fill, hue(plain))
}

func hue(plain bool) string {
	if plain {
		return plot.Color(0)
	}
	return plot.Color(1)
}

func label(s *strings.Builder, x, y float64, anchor, style, text string) {
	fmt.Fprintf(s, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`+"\n", x, y, anchor, style, template.HTMLEscapeString(text))
}
