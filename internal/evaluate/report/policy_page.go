package report

import (
	_ "embed"
	"fmt"
	"html"
	"html/template"
	"io"
	"math"
	"strings"

	"github.com/spillway-llm/spillway/internal/evaluate/offpolicy"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/plot"
)

//go:embed policy.html
var policyText string

var policyPage = template.Must(pageOf("policy", policyText).Parse(
	`{{define "table"}}<table><caption>{{.Title}}</caption><thead><tr>{{range .Head}}<th>{{.}}</th>{{end}}</tr></thead><tbody>
{{range .Rows}}<tr>{{range $i, $cell := .}}{{if $i}}<td>{{$cell}}</td>{{else}}<th>{{$cell}}</th>{{end}}{{end}}</tr>
{{end}}</tbody></table>{{end}}`))

// WritePolicyPage writes the same as one page that needs nothing but itself;
// command is what made it.
func WritePolicyPage(w io.Writer, r *offpolicy.Report, command string) error {
	says := policySays(r)
	data := struct {
		Title, Command         string
		Says, Notes            []string
		Warnings, Caveats      []string
		Table                  table
		Effects, Chance, Heavy template.HTML
		Estimators             []named
	}{
		Title: says[0], Command: command, Says: says[1:], Notes: policyNotes(r), Warnings: r.Warnings, Caveats: caveats,
		Table: estimatesTable(r), Effects: effects(r),
	}
	if r.Judged > r.Deterministic {
		data.Chance = bars("What the target does, by the probability that the log's policy did it", "target", "as it was", probabilities(r.Overlap.ByChance))
		data.Heavy = bars("Decisions by weight (target over logged probability of what was done)", "share of all weight", "share of decisions", weights(r.Overlap.ByWeight))
	}
	for i := range r.Estimates {
		data.Estimators = append(data.Estimators, named{r.Estimates[i].Name, estimatorSays[r.Estimates[i].Name]})
	}
	return policyPage.Execute(w, data)
}

// Of the drawings, in pixels.
const (
	drawingWidth = 940
	labelWidth   = 190
	rowHeight    = 28
	headHeight   = 40
)

// drawing begins an SVG with a title.
func drawing(title string, height int) *strings.Builder {
	out := &strings.Builder{}
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="13" fill="#222">`, drawingWidth, height)
	fmt.Fprintf(out, `<text x="8" y="20" font-weight="600">%s</text>`, html.EscapeString(title))
	return out
}

// effects draws the effects of all estimators below each other, with their
// intervals, and the confidence sequence.
func effects(r *offpolicy.Report) template.HTML {
	type bar struct {
		name            string
		mean, low, high float64
	}
	var all []bar
	for i := range r.Estimates {
		if x := &r.Estimates[i]; x.Withheld == "" {
			all = append(all, bar{x.Name, float64(x.Effect.Mean), float64(x.Effect.Low), float64(x.Effect.High)})
		}
	}
	least, most := 0.0, 0.0
	for _, b := range all {
		least, most = min(least, b.low), max(most, b.high)
	}
	room := 0.08 * (most - least)
	least, most = least-room, most+room
	if s := r.Sequence; s != nil { // it may be so wide that nothing else could be seen
		all = append(all, bar{"confidence sequence", math.NaN(), max(s.Low, least), min(s.High, most)})
	}
	height := headHeight + rowHeight*len(all) + 50
	out := drawing("Effect on "+quantityTitle(r)+", with 95 % intervals", height)
	at := func(v float64) float64 {
		return labelWidth + (v-least)/(most-least)*(drawingWidth-labelWidth-20)
	}
	if !(most > least) {
		at = func(float64) float64 { return (labelWidth + drawingWidth) / 2 }
	}
	bottom := headHeight + rowHeight*len(all)
	for _, tick := range ticks(least, most) {
		stroke := "#ddd"
		if tick == 0 {
			stroke = "#555"
		}
		fmt.Fprintf(out, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="%s"/>`, at(tick), at(tick), headHeight-8, bottom, stroke)
		fmt.Fprintf(out, `<text x="%.1f" y="%d" text-anchor="middle" fill="#555">%s</text>`, at(tick), bottom+18, html.EscapeString(tickText(r, tick)))
	}
	for i, b := range all {
		y := headHeight + rowHeight*i + rowHeight/2
		color := plot.Color(i)
		fmt.Fprintf(out, `<text x="8" y="%d">%s</text>`, y+4, html.EscapeString(b.name))
		fmt.Fprintf(out, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="%s" stroke-width="3"/>`, at(b.low), at(b.high), y, y, color)
		if b.mean == b.mean {
			fmt.Fprintf(out, `<circle cx="%.1f" cy="%d" r="5" fill="%s"><title>%s</title></circle>`, at(b.mean), y, color, html.EscapeString(b.name+": "+difference(r, b.mean)))
		}
	}
	fmt.Fprintf(out, `<text x="%d" y="%d" fill="#555">left of 0: less than it was; the sequence is cut at the edge</text>`, labelWidth, bottom+38)
	out.WriteString(`</svg>`)
	return template.HTML(out.String())
}

func tickText(r *offpolicy.Report, v float64) string {
	if v == 0 {
		return "0"
	}
	return difference(r, v)
}

// ticks are round numbers between two, 0 among them.
func ticks(low, high float64) []float64 {
	if !(high > low) {
		return []float64{0}
	}
	step := math.Pow(10, math.Floor(math.Log10((high-low)/4)))
	for (high-low)/step > 7 {
		step *= 2
	}
	var out []float64
	for k := math.Ceil(low / step); k*step <= high; k++ {
		out = append(out, k*step)
	}
	return out
}

// share is one pair of bars.
type share struct {
	name          string
	first, second float64
}

// bars draws two shares of each range below each other.
func bars(title, first, second string, all []share) template.HTML {
	most := 0.0
	for _, s := range all {
		most = max(most, s.first, s.second)
	}
	height := headHeight + 24 + rowHeight*len(all) + 8
	out := drawing(title, height)
	for k, name := range []string{first, second} {
		x := labelWidth + 200*k
		fmt.Fprintf(out, `<rect x="%d" y="32" width="12" height="12" fill="%s"/><text x="%d" y="43">%s</text>`, x, plot.Color(k), x+18, html.EscapeString(name))
	}
	for i, s := range all {
		y := headHeight + 16 + rowHeight*i
		fmt.Fprintf(out, `<text x="8" y="%d">%s</text>`, y+15, html.EscapeString(s.name))
		for k, v := range []float64{s.first, s.second} {
			width := 0.0
			if most > 0 {
				width = v / most * (drawingWidth - labelWidth - 90)
			}
			fmt.Fprintf(out, `<rect x="%d" y="%d" width="%.1f" height="10" fill="%s"/>`, labelWidth, y+11*k, width, plot.Color(k))
			if v > 0 {
				fmt.Fprintf(out, `<text x="%.1f" y="%d" font-size="10" fill="#555">%s</text>`, labelWidth+width+4, y+11*k+9, percent(feature.Number(v)))
			}
		}
	}
	out.WriteString(`</svg>`)
	return template.HTML(out.String())
}

func probabilities(buckets []offpolicy.Bucket) []share {
	var out []share
	for i, b := range buckets {
		name := fmt.Sprintf("%s to %s", percent(feature.Number(b.From)), percent(feature.Number(b.To)))
		if i == 0 {
			name = "never"
		}
		out = append(out, share{name, b.Target, b.Logged})
	}
	return out
}

func weights(buckets []offpolicy.Bucket) []share {
	var out []share
	sum := 0.0
	for _, b := range buckets {
		sum += b.Target
	}
	for i, b := range buckets {
		name := fmt.Sprintf("%s to %s", digits(b.From), digits(b.To))
		switch {
		case i == 0:
			name = "0: the target never does it"
		case i == len(buckets)-1:
			name = "above " + digits(b.From)
		}
		s := share{name, 0, b.Logged}
		if sum > 0 {
			s.first = b.Target / sum
		}
		out = append(out, s)
	}
	return out
}
