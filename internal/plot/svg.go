package plot

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
)

// The frame around the plotted area, in pixels. The legend's rows are added on top.
const (
	marginLeft   = 58
	marginRight  = 14
	marginBottom = 42
	titleHeight  = 26
	legendRow    = 17
	glyph        = 6.4 // mean width of a letter at 11 px
)

// drawing is a chart as the template wants it: text and attributes, no numbers left.
type drawing struct {
	Width, Height            int
	Title, X, Y              string
	Left, Right, Top, Bottom string // of the plotted area
	Middle, Center           string // of the area: x and y
	XTicks, YTicks           []tick
	Lines                    []stroke
	Legend                   []entry
	Empty                    bool
}

type tick struct{ At, Label string }

type stroke struct {
	Name, Color, Fill, Dash string
	Width, Opacity          string
	Bands                   []string // polygons of intervals
	Whiskers                []whisker
	Paths                   []string
	Marks                   []mark
}

type whisker struct{ X, Low, High string }

type mark struct{ X, Y, Says string }

type entry struct{ X, X2, MarkX, TextX, Y, MarkY, Name, Color, Fill, Dash string }

func px(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// SVG draws the chart.
func (c Chart) SVG() template.HTML {
	var s strings.Builder
	if err := svg.Execute(&s, c.draw()); err != nil {
		panic(err) // the template is a constant and the drawing is text
	}
	return template.HTML(s.String())
}

func (c Chart) draw() drawing {
	if c.Width == 0 {
		c.Width = 460
	}
	if c.Height == 0 {
		c.Height = 300
	}
	d := drawing{Width: c.Width, Height: c.Height, Title: c.Title, X: c.X, Y: c.Y}
	legendBottom := d.legend(c)
	left, right := float64(marginLeft), float64(c.Width-marginRight)
	top, bottom := legendBottom+8, float64(c.Height-marginBottom)
	d.Left, d.Right, d.Top, d.Bottom = px(left), px(right), px(top), px(bottom)
	d.Middle, d.Center = px((left+right)/2), px((top+bottom)/2)

	xs, ys, any := c.extent()
	if !any {
		d.Empty = true
		return d
	}
	pad := (right - left) * 0.02
	x := newScale(xs[0], xs[1], left+pad, right-pad, false)
	y := newScale(ys[0], ys[1], bottom, top+4, c.LogY)
	for _, v := range x.ticks {
		d.XTicks = append(d.XTicks, tick{px(x.at(v)), label(v)})
	}
	for _, v := range y.ticks {
		d.YTicks = append(d.YTicks, tick{px(y.at(v)), label(v)})
	}
	for _, line := range c.Lines {
		d.Lines = append(d.Lines, c.stroke(line, x, y))
	}
	return d
}

func (c Chart) stroke(line Line, x, y scale) stroke {
	s := stroke{Name: line.Name, Color: Color(line.Color), Fill: Color(line.Color), Width: "1.8", Opacity: "1"}
	if line.Thin {
		s.Width, s.Opacity = "1", "0.6"
	}
	if line.Hollow {
		s.Fill = "#ffffff"
	}
	if line.Dashed {
		s.Dash = "5 4"
	}
	for _, piece := range c.pieces(line) {
		var path strings.Builder
		for i, p := range piece {
			at := px(x.at(p.X)) + " " + px(y.at(p.Y))
			if i == 0 {
				path.WriteString("M" + at)
			} else {
				path.WriteString(" L" + at)
			}
			if !line.Bare {
				says := fmt.Sprintf("%s: %s at %s", line.Name, label(p.Y), label(p.X))
				s.Marks = append(s.Marks, mark{px(x.at(p.X)), px(y.at(p.Y)), says})
			}
			if p.interval() {
				low := max(p.Low, y.low)
				s.Whiskers = append(s.Whiskers, whisker{px(x.at(p.X)), px(y.at(low)), px(y.at(p.High))})
			}
		}
		s.Paths = append(s.Paths, path.String())
		if band := band(piece, x, y); band != "" && len(c.Lines) <= banded {
			s.Bands = append(s.Bands, band)
		}
	}
	return s
}

// band is the outline of the intervals of a piece that has one at every point.
func band(piece []Point, x, y scale) string {
	if len(piece) < 2 {
		return ""
	}
	var upper, lower []string
	for i, p := range piece {
		back := piece[len(piece)-1-i]
		if !p.interval() {
			return ""
		}
		upper = append(upper, px(x.at(p.X))+","+px(y.at(p.High)))
		lower = append(lower, px(x.at(back.X))+","+px(y.at(max(back.Low, y.low))))
	}
	return strings.Join(append(upper, lower...), " ")
}

// legend places the names of the lines under the title, in as many rows as they
// need, and returns where the last row ends.
func (d *drawing) legend(c Chart) float64 {
	x, y := float64(marginLeft), float64(titleHeight)
	if len(c.Lines) < 2 || c.Unnamed {
		return y
	}
	for _, line := range c.Lines {
		width := 30 + glyph*float64(len(line.Name)) + 12
		if x > marginLeft && x+width > float64(c.Width) {
			x, y = marginLeft, y+legendRow
		}
		s := stroke{Color: Color(line.Color), Fill: Color(line.Color)}
		if line.Hollow {
			s.Fill = "#ffffff"
		}
		if line.Dashed {
			s.Dash = "5 4"
		}
		d.Legend = append(d.Legend, entry{
			X: px(x), X2: px(x + 22), MarkX: px(x + 11), TextX: px(x + 28), Y: px(y + 12), MarkY: px(y + 8),
			Name: line.Name, Color: s.Color, Fill: s.Fill, Dash: s.Dash,
		})
		x += width
	}
	return y + legendRow
}

// The background is white and the text dark whatever the page around it is, so
// that a file looks the same alone, in a report, and in a dark reader.
var svg = template.Must(template.New("svg").Parse(
	`<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{{.Title}}" width="{{.Width}}" height="{{.Height}}" viewBox="0 0 {{.Width}} {{.Height}}" font-family="system-ui, sans-serif" font-size="11" fill="#333333">
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="{{.Left}}" y="17" font-size="13" font-weight="600" fill="#111111">{{.Title}}</text>
{{range .Legend}}<g><line x1="{{.X}}" x2="{{.X2}}" y1="{{.MarkY}}" y2="{{.MarkY}}" stroke="{{.Color}}" stroke-width="1.8"{{with .Dash}} stroke-dasharray="{{.}}"{{end}}/><circle cx="{{.MarkX}}" cy="{{.MarkY}}" r="2.8" fill="{{.Fill}}" stroke="{{.Color}}" stroke-width="1.4"/><text x="{{.TextX}}" y="{{.Y}}">{{.Name}}</text></g>
{{end}}{{if .Empty}}<text x="{{.Middle}}" y="{{.Center}}" text-anchor="middle" fill="#777777">nothing measured</text>
{{else}}<g stroke="#e4e4e4" stroke-width="1">{{range .YTicks}}<line x1="{{$.Left}}" x2="{{$.Right}}" y1="{{.At}}" y2="{{.At}}"/>{{end}}</g>
<g text-anchor="end">{{range .YTicks}}<text x="{{$.Left}}" dx="-6" y="{{.At}}" dy="4">{{.Label}}</text>{{end}}</g>
<g text-anchor="middle">{{range .XTicks}}<line x1="{{.At}}" x2="{{.At}}" y1="{{$.Bottom}}" y2="{{$.Bottom}}" stroke="#999999"/><text x="{{.At}}" y="{{$.Bottom}}" dy="15">{{.Label}}</text>{{end}}</g>
<line x1="{{.Left}}" x2="{{.Right}}" y1="{{.Bottom}}" y2="{{.Bottom}}" stroke="#999999"/>
{{range .Lines}}{{$line := .}}<g fill="none" stroke="{{.Color}}" stroke-width="{{.Width}}" stroke-opacity="{{.Opacity}}" stroke-linejoin="round">
{{range .Bands}}<polygon points="{{.}}" fill="{{$line.Color}}" fill-opacity="0.13" stroke="none"/>
{{end}}{{range .Paths}}<path d="{{.}}"{{with $line.Dash}} stroke-dasharray="{{.}}"{{end}}/>
{{end}}{{range .Whiskers}}<line x1="{{.X}}" x2="{{.X}}" y1="{{.Low}}" y2="{{.High}}" stroke-width="1" stroke-opacity="0.55"/>
{{end}}{{range .Marks}}<circle cx="{{.X}}" cy="{{.Y}}" r="2.8" fill="{{$line.Fill}}" stroke-width="1.4"><title>{{.Says}}</title></circle>
{{end}}</g>
{{end}}{{end}}<text x="{{.Middle}}" y="{{.Height}}" dy="-8" text-anchor="middle">{{.X}}</text>
<text transform="translate(13 {{.Center}}) rotate(-90)" text-anchor="middle">{{.Y}}</text>
</svg>
`))
