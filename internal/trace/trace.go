// Package trace reads public request traces, the Azure LLM inference traces
// (CSV) and the Mooncake traces (JSON lines), into one form. It reads from an
// io.Reader, line by line, in bounded memory. Requests that were served and
// whose prompts nobody kept come to the same form from their numbers.
//
// A broken line is no reason to give up a trace: it is named, counted and
// skipped, and the rest is used.
package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"
)

// Item is one request of a trace.
type Item struct {
	// At is when the request arrived, counted from the trace's first.
	At time.Duration
	// PromptTokens is at least 1; OutputTokens may be 0.
	PromptTokens, OutputTokens int
	// Blocks identifies the prompt's content, one id for each BlockTokens
	// tokens, the last perhaps for fewer: prompts that begin with the same ids
	// share that much of their text. Nil where the trace says nothing. Text
	// behind the last id is this prompt's own.
	Blocks []uint64
	// BlockTokens is the tokens of one block, 0 without Blocks.
	BlockTokens int
	// Line is the line of the file, from 1; 0 where there is no file.
	Line int
}

// Limits of what is taken for a request. Far above any real one, they keep a
// typing error from becoming a prompt of gigabytes.
const (
	MaxTokens = 10_000_000
	MaxLine   = 1 << 20
)

// LineError says why a line was skipped.
type LineError struct {
	Line   int
	Reason string
}

func (e *LineError) Error() string { return fmt.Sprintf("trace line %d: %s", e.Line, e.Reason) }

// Format is a trace's file format.
type Format uint8

// The formats.
const (
	Unknown Format = iota
	AzureCSV
	MooncakeJSON
)

// String returns the format's name.
func (f Format) String() string {
	switch f {
	case AzureCSV:
		return "azure"
	case MooncakeJSON:
		return "mooncake"
	}
	return "unknown"
}

// Detect tells the format from the beginning of a file (not compressed).
func Detect(head []byte) Format {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xEF\xBB\xBF")), " \t\r\n")
	line, _, _ := bytes.Cut(head, []byte("\n"))
	switch {
	case bytes.HasPrefix(line, []byte("{")):
		return MooncakeJSON
	case bytes.Contains(bytes.ToUpper(line), []byte("TIMESTAMP")) && bytes.Contains(line, []byte(",")):
		return AzureCSV
	}
	return Unknown
}

// parser turns one line into an item whose At is still the trace's own time.
type parser func(line []byte) (Item, error)

// errHeader marks a line that is part of the format and no request.
var errHeader = errors.New("header")

// read yields the items of r in file order. At is counted from the first item,
// so a trace that is not sorted yields negative offsets too.
func read(r io.Reader, parse parser) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		var first time.Duration
		begun := false
		for n, line := range lines(r) {
			if line.err != nil {
				if !yield(Item{}, line.err) {
					return
				}
				continue
			}
			item, err := parse(line.text)
			switch {
			case err == errHeader:
				continue
			case err != nil:
				item, err = Item{}, &LineError{Line: n, Reason: err.Error()}
			default:
				if !begun {
					first, begun = item.At, true
				}
				item.At, item.Line = item.At-first, n
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

type textLine struct {
	text []byte
	err  error
}

// lines yields the lines of r that are not blank, numbered from 1. A line that
// is too long is an error of that line; a reader's error is the last thing
// yielded.
func lines(r io.Reader) iter.Seq2[int, textLine] {
	return func(yield func(int, textLine) bool) {
		b := bufio.NewReaderSize(r, 64<<10)
		var long []byte
		for n := 1; ; n++ {
			line, err := b.ReadSlice('\n')
			tooLong := false
			if err == bufio.ErrBufferFull {
				long = long[:0]
				for err == bufio.ErrBufferFull {
					if tooLong = tooLong || len(long)+len(line) > MaxLine; !tooLong {
						long = append(long, line...)
					}
					line, err = b.ReadSlice('\n')
				}
				if tooLong = tooLong || len(long)+len(line) > MaxLine; !tooLong {
					long = append(long, line...)
				}
				line = long
			}
			if err != nil && err != io.EOF {
				yield(n, textLine{err: fmt.Errorf("read trace, line %d: %w", n, err)})
				return
			}
			if n == 1 {
				line = bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
			}
			line = bytes.TrimSpace(line)
			switch {
			case tooLong:
				if !yield(n, textLine{err: &LineError{Line: n, Reason: fmt.Sprintf("longer than %d bytes", MaxLine)}}) {
					return
				}
			case len(line) > 0:
				if !yield(n, textLine{text: line}) {
					return
				}
			}
			if err == io.EOF {
				return
			}
		}
	}
}

// Report is what Load found beside the items.
type Report struct {
	Format Format
	// Broken counts the lines that were skipped; FirstBroken names the first
	// ten.
	Broken      int
	FirstBroken []*LineError
}

const namedBroken = 10

// Load reads a whole trace of any known format, compressed by gzip or not. The
// items are sorted by time, those of one time in file order, and the first is
// at 0. The error is the reader's, or says that the format is not known or that
// no line was usable; broken lines are in the report alone.
func Load(r io.Reader) ([]Item, Report, error) {
	r, err := Open(r)
	if err != nil {
		return nil, Report{}, err
	}
	b := bufio.NewReaderSize(r, 4<<10)
	head, err := b.Peek(1 << 10)
	if err != nil && err != io.EOF {
		return nil, Report{}, fmt.Errorf("read trace: %w", err)
	}
	report := Report{Format: Detect(head)}
	var all iter.Seq2[Item, error]
	switch report.Format {
	case AzureCSV:
		all = Azure(b)
	case MooncakeJSON:
		all = Mooncake(b)
	default:
		return nil, report, errors.New("trace format not known: expected the CSV header TIMESTAMP,ContextTokens,GeneratedTokens or JSON lines with timestamp, input_length, output_length")
	}
	var items []Item
	for item, err := range all {
		var broken *LineError
		switch {
		case errors.As(err, &broken):
			if report.Broken++; report.Broken <= namedBroken {
				report.FirstBroken = append(report.FirstBroken, broken)
			}
		case err != nil:
			return nil, report, err
		default:
			items = append(items, item)
		}
	}
	if len(items) == 0 {
		if report.Broken > 0 {
			return nil, report, fmt.Errorf("trace has no usable line: %w", report.FirstBroken[0])
		}
		return nil, report, errors.New("trace has no requests")
	}
	slices.SortStableFunc(items, func(a, b Item) int { return cmp.Compare(a.At, b.At) })
	for i, first := 0, items[0].At; i < len(items); i++ {
		items[i].At -= first
	}
	return items, report, nil
}
