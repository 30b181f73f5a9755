package plot

import (
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Rows is one line of text a row, with a value and its interval for each series:
// for comparing a few things in many places. Values beyond Least and Most are
// drawn at the edge, as an arrow with the number.
type Rows struct {
	Title       string
	X           string   // what the axis counts, with the unit
	Series      []string // in the order of the colours
	Rows        []Row
	Least, Most float64 // of the axis
	Zero        float64 // where a line is drawn that values are compared with
	Width       int     // pixels; 0 is 760
}

// Row is one place.
type Row struct {
	Label  string
	Head   bool    // stands apart, without values
	Values []Value // by series
}

// Value is one number; what is no number is not drawn.
type Value struct{ At, Low, High float64 }

const (
	rowHeight   = 22
	headHeight  = 26
	labelWidth  = 190
	rowsPadding = 16
	seriesApart = 5.5 // pixels between the series of a row
)

// SVG draws the rows.
func (r Rows) SVG() template.HTML {
	width := float64(r.Width)
	if width == 0 {
		width = 760
	}
	top := float64(titleHeight + legendRow + 14)
	height := top + rowsPadding + marginBottom
	for _, row := range r.Rows {
		height += row.height()
	}
	x := newScale(r.Least, r.Most, labelWidth, width-rowsPadding-28, false)
	var s strings.Builder
	text := func(x, y float64, anchor, style, what string) {
		fmt.Fprintf(&s, `<text x="%s" y="%s" text-anchor="%s" %s>%s</text>`+"\n", px(x), px(y), anchor, style, template.HTMLEscapeString(what))
	}
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" font-family="system-ui, sans-serif" font-size="11" fill="#333">`+"\n",
		px(width), px(height), px(width), px(height))
	fmt.Fprintf(&s, `<rect width="%s" height="%s" fill="#ffffff"/>`+"\n", px(width), px(height))
	text(rowsPadding, titleHeight-8, "start", `font-size="13" font-weight="600"`, r.Title)
	at := float64(rowsPadding)
	for i, name := range r.Series {
		fmt.Fprintf(&s, `<circle cx="%s" cy="%s" r="4" fill="%s"/>`+"\n", px(at+4), px(titleHeight+6), Color(i))
		text(at+12, titleHeight+10, "start", "", name)
		at += 30 + glyph*float64(len(name))
	}
	bottom := height - marginBottom
	for _, v := range x.ticks {
		fmt.Fprintf(&s, `<line x1="%[1]s" y1="%[2]s" x2="%[1]s" y2="%[3]s" stroke="#e6e6e6"/>`+"\n", px(x.at(v)), px(top), px(bottom))
		text(x.at(v), bottom+15, "middle", `fill="#666"`, label(v))
	}
	fmt.Fprintf(&s, `<line x1="%[1]s" y1="%[2]s" x2="%[1]s" y2="%[3]s" stroke="#555" stroke-width="1.2"/>`+"\n", px(x.at(r.Zero)), px(top), px(bottom))
	text((labelWidth+width-rowsPadding)/2, bottom+33, "middle", `fill="#666"`, r.X)
	y := top + rowsPadding/2
	for _, row := range r.Rows {
		middle := y + row.height()/2
		if row.Head {
			text(rowsPadding, middle+6, "start", `font-weight="600"`, row.Label)
		} else {
			text(labelWidth-12, middle+4, "end", "", row.Label)
		}
		for i, v := range row.Values {
			r.mark(&s, x, v, i, middle+seriesApart*(float64(i)-float64(len(row.Values)-1)/2), row.Label)
		}
		y += row.height()
	}
	s.WriteString("</svg>\n")
	return template.HTML(s.String())
}

func (r Row) height() float64 {
	if r.Head {
		return headHeight
	}
	return rowHeight
}

// mark draws one value.
func (r Rows) mark(s *strings.Builder, x scale, v Value, series int, y float64, where string) {
	if !finite(v.At) {
		return
	}
	inside := func(v float64) float64 { return x.at(math.Min(math.Max(v, r.Least), r.Most)) }
	color, name := Color(series), ""
	if series < len(r.Series) {
		name = r.Series[series]
	}
	if finite(v.Low) && finite(v.High) && v.High >= r.Least && v.Low <= r.Most {
		fmt.Fprintf(s, `<line x1="%s" y1="%[3]s" x2="%[2]s" y2="%[3]s" stroke="%[4]s" stroke-width="1.6" opacity="0.6"/>`+"\n", px(inside(v.Low)), px(inside(v.High)), px(y), color)
	}
	says := template.HTMLEscapeString(fmt.Sprintf("%s, %s: %.1f", where, name, v.At))
	switch at := inside(v.At); {
	case v.At > r.Most:
		fmt.Fprintf(s, `<path d="M%s %s l-7 -3.5 v7 z" fill="%s"><title>%s</title></path><text x="%s" y="%s" font-size="8.5" fill="%s">%+.0f</text>`+"\n", px(at+4), px(y), color, says, px(at+6), px(y+3), color, v.At)
	case v.At < r.Least:
		fmt.Fprintf(s, `<path d="M%s %s l7 -3.5 v7 z" fill="%s"><title>%s</title></path>`+"\n", px(at-4), px(y), color, says)
	default:
		fmt.Fprintf(s, `<circle cx="%s" cy="%s" r="3.4" fill="%s"><title>%s</title></circle>`+"\n", px(at), px(y), color, says)
	}
}
