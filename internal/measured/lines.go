package measured

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
)

// MaxLine is the longest line, in bytes, that a reader takes for a row.
const MaxLine = 1 << 20

// maxTokens and maxSeconds bound what is taken for a measurement: far above
// any real one, they keep a typing error out of a fit.
const (
	maxTokens  = 10_000_000
	maxSeconds = 24 * 3600
)

// LineError says why a line was skipped.
type LineError struct {
	Line   int // from 1
	Reason string
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// Open returns a reader of r's content, decompressed if it begins like a gzip
// file.
func Open(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	head, err := b.Peek(2)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	if len(head) < 2 || head[0] != 0x1f || head[1] != 0x8b {
		return b, nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("read compressed rows: %w", err)
	}
	return z, nil
}

// Report is what Collect left out.
type Report struct {
	Broken int          // lines skipped
	First  []*LineError // the first ten of them
}

// Collect gathers the rows that a reader yields. The error is the reader's, or
// says that no line was usable; broken lines are in the report alone.
func Collect[T any](rows iter.Seq2[T, error]) ([]T, Report, error) {
	const named = 10
	var all []T
	var report Report
	for row, err := range rows {
		var broken *LineError
		switch {
		case errors.As(err, &broken):
			if report.Broken++; report.Broken <= named {
				report.First = append(report.First, broken)
			}
		case err != nil:
			return nil, report, err
		default:
			all = append(all, row)
		}
	}
	if len(all) == 0 {
		if report.Broken > 0 {
			return nil, report, fmt.Errorf("no usable row: %w", report.First[0])
		}
		return nil, report, errors.New("no rows")
	}
	return all, report, nil
}

// errHeader marks a line that is part of the format and no row.
var errHeader = errors.New("header")

// read yields the rows of r in file order. The error beside a row is a
// *LineError, after which reading goes on, or the reader's, which is the last.
func read[T any](r io.Reader, parse func(line []byte) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		s := bufio.NewScanner(r)
		s.Buffer(make([]byte, 0, 64<<10), MaxLine)
		n := 0
		for s.Scan() {
			line := s.Bytes()
			if n++; n == 1 {
				line = bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
			}
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}
			row, err := parse(line)
			if err == errHeader {
				continue
			}
			if err != nil {
				row, err = none, &LineError{Line: n, Reason: err.Error()}
			}
			if !yield(row, err) {
				return
			}
		}
		if err := s.Err(); err != nil {
			yield(none, fmt.Errorf("read rows after line %d: %w", n, err))
		}
	}
}

// within reports a number outside least to most, also one that is not there.
func within(name string, v *float64, least, most float64) error {
	switch {
	case v == nil:
		return fmt.Errorf("%s is missing", name)
	case math.IsNaN(*v) || *v < least || *v > most:
		return fmt.Errorf("%s is %v: want %v to %v", name, *v, least, most)
	}
	return nil
}
