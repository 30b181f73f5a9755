package report

import (
	"strconv"

	"github.com/spillway-llm/spillway/internal/evaluate"
)

// column is one column of a table of scores.
type column struct {
	head string
	text func(*evaluate.Scores) string
}

// columns are those of every table.
var columns = []column{
	{"rows", func(s *evaluate.Scores) string { return strconv.FormatInt(s.Rows, 10) }},
	{"MAPE", func(s *evaluate.Scores) string { return percent(s.MAPE) }},
	{"median APE", func(s *evaluate.Scores) string { return percent(s.MedianAPE) }},
	{"WAPE", func(s *evaluate.Scores) string { return percent(s.WAPE) }},
	{"pinball p50", func(s *evaluate.Scores) string { return number(s.PinballP50) }},
	{"pinball p90", func(s *evaluate.Scores) string { return number(s.PinballP90) }},
	{"p90 covers (99 %)", func(s *evaluate.Scores) string { return within(s.Coverage) }},
	{"p90/p50", func(s *evaluate.Scores) string { return ratio(s.Width) }},
	{"bias", func(s *evaluate.Scores) string { return signed(s.Bias) }},
	{"in order", func(s *evaluate.Scores) string { return percent(s.Concordance) }},
}

// table is rows of text below a head.
type table struct {
	Title string
	Head  []string
	Rows  [][]string
}

func (t *table) add(name string, s *evaluate.Scores) {
	row := []string{name}
	for _, c := range columns {
		row = append(row, c.text(s))
	}
	t.Rows = append(t.Rows, row)
}

func newTable(title, of string) table {
	t := table{Title: title, Head: []string{of}}
	for _, c := range columns {
		t.Head = append(t.Head, c.head)
	}
	return t
}

// target is one of the two quantities.
type target struct {
	name string
	of   func(*evaluate.Series) *evaluate.Quality
}

var targets = []target{
	{"TTFT", func(s *evaluate.Series) *evaluate.Quality { return &s.TTFT }},
	{"TPOT", func(s *evaluate.Series) *evaluate.Quality { return &s.TPOT }},
}

// chief is the series that details are of: the last, which is the one that is
// used.
func chief(r *evaluate.Report) *evaluate.Series { return &r.Series[len(r.Series)-1] }

// compared is the table of all series beside each other.
func compared(r *evaluate.Report, t target) table {
	out := newTable(t.name, "forecast")
	last := len(out.Head) - 1 // what stands there alone in other tables has its interval here
	out.Head = append(out.Head[:last], "in order (95 %)", "bias between endpoints")
	for i := range r.Series {
		q := t.of(&r.Series[i])
		out.add(r.Series[i].Name, &q.All)
		out.Rows[i] = append(out.Rows[i][:last], interval(q.Concordance), spread(q.BiasSpread))
	}
	return out
}

// details are the tables of the chief series.
func details(r *evaluate.Report, t target) []table {
	s := chief(r)
	q := t.of(s)
	chosen := newTable(t.name+", "+s.Name+", by how the endpoint was chosen", "chosen")
	chosen.add("for its cost", &q.Exploited)
	chosen.add("by exploration", &q.Explored)
	out := []table{chosen}
	for _, by := range []struct {
		name   string
		groups []evaluate.Group
	}{
		{"by decile of " + r.Load + " before the decision", q.ByLoad},
		{"by prompt tokens", q.ByPrompt},
		{"by endpoint", q.ByEndpoint},
	} {
		group := newTable(t.name+", "+s.Name+", "+by.name, "of")
		for i := range by.groups {
			group.add(by.groups[i].Name, &by.groups[i].Scores)
		}
		out = append(out, group)
	}
	return out
}
