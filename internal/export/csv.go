package export

import (
	"bufio"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
)

// CSV writes rows as CSV with a header (RFC 4180). Numbers are written so that
// reading gives the same bits, unknown ones as nothing; times as RFC 3339.
type CSV struct {
	w    *csv.Writer
	text []string
}

// NewCSV begins a file.
func NewCSV(w io.Writer) (*CSV, error) {
	c := &CSV{w: csv.NewWriter(w), text: make([]string, len(columns))}
	for i := range columns {
		c.text[i] = columns[i].Name
	}
	return c, c.w.Write(c.text)
}

// Write adds a row.
func (c *CSV) Write(r *Row) error {
	for i := range columns {
		c.text[i] = textOf(columns[i].at(r))
	}
	return c.w.Write(c.text)
}

// Close ends the file; the writer below it stays open.
func (c *CSV) Close() error {
	c.w.Flush()
	return c.w.Error()
}

func textOf(at any) string {
	switch p := at.(type) {
	case *string:
		return *p
	case *feature.Status:
		return string(*p)
	case *float64:
		return floatText(*p, 64)
	case *feature.Seconds:
		return floatText(float64(*p), 64)
	case *float32:
		return floatText(float64(*p), 32)
	case *int:
		return strconv.Itoa(*p)
	case *int64:
		return strconv.FormatInt(*p, 10)
	case *uint64:
		return strconv.FormatUint(*p, 10)
	case *bool:
		return strconv.FormatBool(*p)
	case *time.Time:
		if p.IsZero() {
			return ""
		}
		return p.UTC().Format(time.RFC3339Nano)
	case *feature.ID:
		return p.String()
	case *feature.Fingerprint:
		return p.String()
	case *candidateTable:
		return p.text()
	case *candidateVectors:
		return base64.StdEncoding.EncodeToString(p.bytes())
	case *[]byte:
		return base64.StdEncoding.EncodeToString(*p)
	}
	panic(fmt.Sprintf("no text for a %T", at))
}

func floatText(v float64, bits int) string {
	if v != v {
		return ""
	}
	return strconv.FormatFloat(v, 'g', -1, bits)
}

// statuses are all that an outcome may have; without an outcome it has none.
var statuses = []feature.Status{feature.OK, feature.ClientAbort, feature.UpstreamError, feature.UpstreamTimeout, feature.Shed, feature.Lost}

// setText sets a value from what textOf wrote.
func setText(at any, text string) (err error) {
	switch p := at.(type) {
	case *string:
		*p = text
	case *feature.Status:
		if *p = feature.Status(text); text != "" && !slices.Contains(statuses, *p) {
			return fmt.Errorf("not a status: want %v", statuses)
		}
	case *float64:
		*p, err = floatOf(text, 64)
	case *feature.Seconds:
		var v float64
		v, err = floatOf(text, 64)
		*p = feature.Seconds(v)
	case *float32:
		var v float64
		v, err = floatOf(text, 32)
		*p = float32(v)
	case *int:
		var v int64
		v, err = strconv.ParseInt(text, 10, 32) // as in the store
		*p = int(v)
	case *int64:
		*p, err = strconv.ParseInt(text, 10, 64)
	case *uint64:
		*p, err = strconv.ParseUint(text, 10, 64)
	case *bool:
		*p, err = strconv.ParseBool(text)
	case *time.Time:
		*p = time.Time{}
		if text != "" {
			*p, err = time.Parse(time.RFC3339Nano, text)
			*p = p.UTC()
		}
	case *feature.ID:
		*p, err = feature.ParseID(text)
	case *feature.Fingerprint:
		*p, err = feature.ParseFingerprint(text)
	case *candidateTable:
		err = p.setText([]byte(text))
	case *candidateVectors, *[]byte:
		var b []byte
		if b, err = base64.StdEncoding.DecodeString(text); err == nil {
			err = setBytes(p, b)
		}
	default:
		panic(fmt.Sprintf("no text for a %T", at))
	}
	if bad := (*strconv.NumError)(nil); errors.As(err, &bad) {
		err = bad.Err // without the name of the function
	}
	return err
}

// setBytes sets a value of bytes, which it may keep.
func setBytes(at any, b []byte) error {
	if vectors, ok := at.(*candidateVectors); ok {
		return vectors.setBytes(b)
	}
	if len(b) > 0 {
		*at.(*[]byte) = b
	}
	return nil
}

func floatOf(text string, bits int) (float64, error) {
	if text == "" {
		return feature.Unknown, nil
	}
	v, err := strconv.ParseFloat(text, bits)
	if v != v { // of one kind only
		v = math.NaN()
	}
	return v, err
}

// ReadCSV reads what CSV wrote. Columns may stand in any order, and others may
// stand beside them. An error names the line and ends the sequence.
func ReadCSV(r io.Reader) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		bound := &bounded{r: r, left: longestRecord}
		in := csv.NewReader(bufio.NewReaderSize(bound, 1<<16))
		in.ReuseRecord = true
		header, err := in.Read()
		if err != nil {
			yield(Row{}, fmt.Errorf("no header: %w", err))
			return
		}
		places := make([]int, len(columns))
		for i := range columns {
			if places[i] = slices.Index(header, columns[i].Name); places[i] < 0 && !columns[i].later() {
				yield(Row{}, missing(columns[i].Name))
				return
			}
		}
		for n := 1; ; n++ {
			bound.left = longestRecord
			record, err := in.Read()
			if errors.Is(err, io.EOF) {
				return
			}
			if errors.Is(err, errLong) {
				err = fmt.Errorf("row %d: %w", n, err)
			}
			var row Row
			for i := 0; err == nil && i < len(columns); i++ {
				if places[i] < 0 {
					continue
				}
				if err = setText(columns[i].at(&row), record[places[i]]); err != nil {
					line, _ := in.FieldPos(places[i])
					err = fmt.Errorf("line %d: column %s: %q: %w", line, columns[i].Name, clipped(record[places[i]]), err)
				}
			}
			if err != nil {
				yield(Row{}, err)
				return
			}
			row.join()
			if !yield(row, nil) {
				return
			}
		}
	}
}

// longestRecord is about the most bytes of one row of a CSV file: those of some
// 50,000 candidates. Without a bound a quote that is not closed takes the rest of the
// file, and a small compressed file all memory.
const longestRecord = 32 << 20

var errLong = fmt.Errorf("it has more than %d MiB: is a quote not closed?", longestRecord>>20)

// bounded reads so many bytes of r.
type bounded struct {
	r    io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLong
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// clipped keeps what an error quotes of a file short.
func clipped(text string) string {
	if len(text) > 40 {
		return text[:40] + "..."
	}
	return text
}

func missing(column string) error {
	return fmt.Errorf("no column %s: this is not what \"spillway store export\" writes", column)
}
