package design

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MostText is the longest text of a design in bytes.
const MostText = 512

// String is the design as rows carry it:
//
//	switchback name=NAME start=TIME block=DURATION burn_in=DURATION pairs=N seed=N arms=FIRST|SECOND
func (s *Switchback) String() string {
	return fmt.Sprintf("switchback name=%s start=%s block=%v burn_in=%v pairs=%d seed=%d arms=%s|%s",
		s.Name, s.Start.UTC().Format(time.RFC3339Nano), s.Block, s.BurnIn, s.Pairs, s.Seed, s.Arms[0], s.Arms[1])
}

// String is the design as rows carry it:
//
//	split share=SHARE arms=FIRST|SECOND
func (s *Split) String() string {
	return fmt.Sprintf("split share=%v arms=%s|%s", s.Share, s.Arms[0], s.Arms[1])
}

// Parse reads what String wrote: one of the two designs, and nil for the other.
// It takes no other text for it.
func Parse(text string) (*Switchback, *Split, error) {
	if len(text) > MostText {
		return nil, nil, fmt.Errorf("a design has %d bytes, want at most %d", len(text), MostText)
	}
	kind, rest, _ := strings.Cut(text, " ")
	f := fields{rest: rest}
	switch kind {
	case "switchback":
		s := &Switchback{
			Name:  f.text("name"),
			Start: parsed(&f, "start", func(v string) (time.Time, error) { return time.Parse(time.RFC3339Nano, v) }),
			Block: parsed(&f, "block", time.ParseDuration), BurnIn: parsed(&f, "burn_in", time.ParseDuration),
			Pairs: parsed(&f, "pairs", strconv.Atoi),
			Seed:  parsed(&f, "seed", func(v string) (uint64, error) { return strconv.ParseUint(v, 10, 64) }),
			Arms:  f.arms(),
		}
		return s, nil, f.done(text, s)
	case "split":
		s := &Split{
			Share: parsed(&f, "share", func(v string) (float64, error) { return strconv.ParseFloat(v, 64) }),
			Arms:  f.arms(),
		}
		return nil, s, f.done(text, s)
	}
	return nil, nil, fmt.Errorf("design %q: begins with neither switchback nor split", text)
}

// fields reads key=value one after the other. After the first error it reads
// nothing.
type fields struct {
	rest string
	err  error
}

func (f *fields) text(key string) string {
	if f.err != nil {
		return ""
	}
	var word string
	word, f.rest, _ = strings.Cut(f.rest, " ")
	value, ok := strings.CutPrefix(word, key+"=")
	if !ok {
		f.err = fmt.Errorf("want %s=, not %q", key, word)
	}
	return value
}

func parsed[T any](f *fields, key string, parse func(string) (T, error)) (v T) {
	text := f.text(key)
	if f.err != nil {
		return v
	}
	v, err := parse(text)
	if err != nil {
		f.err = fmt.Errorf("%s: %w", key, err)
	}
	return v
}

func (f *fields) arms() [2]string {
	first, second, _ := strings.Cut(f.text("arms"), "|")
	return [2]string{first, second}
}

// done checks what was read, and that it is written in one way.
func (f *fields) done(text string, d interface {
	Check() error
	String() string
}) error {
	err := f.err
	if err == nil {
		err = d.Check()
	}
	if err == nil && d.String() != text {
		err = fmt.Errorf("is written %q", d)
	}
	if err != nil {
		return fmt.Errorf("design %q: %w", text, err)
	}
	return nil
}
