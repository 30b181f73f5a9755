package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spillway-llm/spillway/internal/evaluate"
)

// endpointsShown is above how many endpoints a terminal is shown the worst
// ones alone; the page and JSON have all.
const endpointsShown = 20

// WriteTable writes reports for a terminal: the series beside each other, then
// the details of the last one.
func WriteTable(w io.Writer, reports []evaluate.Report) error {
	var text strings.Builder
	for i := range reports {
		r := &reports[i]
		if i > 0 {
			text.WriteString("\n")
		}
		fmt.Fprintln(&text, says(r))
		for _, l := range r.LeftOut {
			fmt.Fprintf(&text, "  left out: %d, %s\n", l.Rows, l.Why)
		}
		for _, s := range r.Series {
			fmt.Fprintf(&text, "  %s: %s\n", s.Name, series[s.Name])
		}
		for _, t := range targets {
			if t.of(chief(r)).All.Rows == 0 {
				fmt.Fprintf(&text, "\n%s: no row has one\n", t.name)
				continue
			}
			compared(r, t).write(&text)
			for _, d := range details(r, t) {
				d.shown().write(&text)
			}
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// shown is the table without the rows that a terminal has no room for.
func (t table) shown() table {
	if more := len(t.Rows) - endpointsShown; more > 0 {
		t.Rows = append(t.Rows[:endpointsShown:endpointsShown], []string{fmt.Sprintf("%d more", more)})
	}
	return t
}

func (t table) write(text *strings.Builder) {
	fmt.Fprintf(text, "\n%s\n", t.Title)
	widths := make([]int, len(t.Head))
	all := append([][]string{t.Head}, t.Rows...)
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range all {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString("  " + cell + pad)
			} else {
				line.WriteString("  " + pad + cell)
			}
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}
