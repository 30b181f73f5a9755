package measured

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// table reads lines of comma-separated values by the names of their columns.
// A value never spans lines.
type table struct {
	wanted []string       // columns that must be there
	column map[string]int // by name, nil before the header; the last of a name that comes twice
	width  int            // columns of the header
	fields []string       // of the line read last
	err    error          // the first thing wrong with it
}

// next reads one line; the first line is the header.
func (t *table) next(line []byte) error {
	r := csv.NewReader(strings.NewReader(string(line)))
	r.FieldsPerRecord = -1
	fields, err := r.Read()
	if err == io.EOF {
		err = fmt.Errorf("nothing but a comment")
	}
	if err != nil {
		return fmt.Errorf("no comma-separated values: %w", err)
	}
	if t.column == nil {
		column := make(map[string]int, len(fields))
		for i, name := range fields {
			column[strings.TrimSpace(name)] = i
		}
		for _, name := range t.wanted {
			if _, ok := column[name]; !ok {
				return fmt.Errorf("the header has no column %s", name)
			}
		}
		t.column, t.width = column, len(fields)
		return errHeader
	}
	if len(fields) != t.width {
		return fmt.Errorf("%d values, the header names %d", len(fields), t.width)
	}
	t.fields, t.err = fields, nil
	return nil
}

// text is the value of a column, "" if there is none.
func (t *table) text(name string) string {
	if i, ok := t.column[name]; ok {
		return strings.TrimSpace(t.fields[i])
	}
	return ""
}

// number is the value of a column, which must lie in the range.
func (t *table) number(name string, least, most float64) float64 {
	text := t.text(name)
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case t.err != nil:
	case err != nil:
		t.err = fmt.Errorf("%s %.40q is no number", name, text)
	case math.IsNaN(v) || v < least || v > most:
		t.err = fmt.Errorf("%s is %v: want %v to %v", name, v, least, most)
	}
	return v
}

// count is a number that is whole, and otherwise where the column is empty or
// not there.
func (t *table) count(name string, otherwise int) int {
	if t.text(name) == "" {
		return otherwise
	}
	v := t.number(name, 0, maxTokens)
	if t.err == nil && v != math.Trunc(v) {
		t.err = fmt.Errorf("%s is %v: want a whole number", name, v)
	}
	return int(v)
}
