package trace

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"
)

// Azure reads the Azure LLM inference traces: CSV with a header that names
// TIMESTAMP, ContextTokens and GeneratedTokens in any order, among others.
// Timestamps are of the 2023 form, "2023-11-16 18:15:46.6805900", or of the
// 2024 form with a zone behind it.
//
// It yields the items in file order; the error beside an item is a *LineError,
// after which reading goes on, or a reader's error, which is the last.
func Azure(r io.Reader) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		var a azure
		read(r, a.parse)(yield)
	}
}

// azure holds the columns' places and the time that offsets are counted from.
type azure struct {
	at, prompt, output int // columns, from 1; 0: no header yet
	fields             []string
	epoch              time.Time
}

func (a *azure) parse(line []byte) (Item, error) {
	a.fields = a.fields[:0]
	for field := range strings.SplitSeq(string(line), ",") {
		a.fields = append(a.fields, strings.Trim(strings.TrimSpace(field), `"`))
	}
	if a.at == 0 {
		return Item{}, a.header()
	}
	if len(a.fields) < max(a.at, a.prompt, a.output) {
		return Item{}, fmt.Errorf("%d columns, the header has more", len(a.fields))
	}
	at, err := timestamp(a.fields[a.at-1])
	if err != nil {
		return Item{}, err
	}
	if a.epoch.IsZero() {
		a.epoch = at
	}
	var item Item
	if item.PromptTokens, err = tokens("ContextTokens", a.fields[a.prompt-1], 1); err != nil {
		return Item{}, err
	}
	if item.OutputTokens, err = tokens("GeneratedTokens", a.fields[a.output-1], 0); err != nil {
		return Item{}, err
	}
	item.At = at.Sub(a.epoch)
	return item, nil
}

func (a *azure) header() error {
	var at, prompt, output int
	for i, name := range a.fields {
		switch strings.ToLower(name) {
		case "timestamp":
			at = i + 1
		case "contexttokens":
			prompt = i + 1
		case "generatedtokens":
			output = i + 1
		}
	}
	if at == 0 || prompt == 0 || output == 0 {
		return errors.New("expected a header with TIMESTAMP, ContextTokens and GeneratedTokens")
	}
	a.at, a.prompt, a.output = at, prompt, output
	return errHeader
}

func timestamp(s string) (time.Time, error) {
	for _, layout := range [...]string{"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00", time.RFC3339} {
		if t, err := time.Parse(layout, s); err == nil && t.Year() >= 1970 && t.Year() < 2200 {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("TIMESTAMP %.40q is no time like 2023-11-16 18:15:46.6805900", s)
}

func tokens(name, s string, least int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, fmt.Errorf("%s %.40q is no whole number", name, s)
	}
	return n, inRange(name, n, least)
}

func inRange(name string, n, least int) error {
	if n < least || n > MaxTokens {
		return fmt.Errorf("%s %d is not between %d and %d", name, n, least, MaxTokens)
	}
	return nil
}
