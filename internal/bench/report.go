package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Report is the outcome of one benchmark.
type Report struct {
	Name    string         `json:"name"`    // of the file, without ".json"
	Command string         `json:"command"` // that makes it again
	Origin  Origin         `json:"origin"`
	Seeds   []uint64       `json:"seeds,omitempty"`
	Sizes   map[string]int `json:"sizes,omitempty"` // how much was measured: requests, rows, endpoints
	Bars    []Bar          `json:"bars"`
	Data    any            `json:"data,omitempty"` // the table, as the benchmark defines it
}

// Print writes a line for each bar.
func (r Report) Print(w io.Writer) {
	for _, b := range r.Bars {
		fmt.Fprintln(w, b)
	}
}

// Save writes NAME.json into a folder, which it makes if need be.
func (r Report) Save(folder string) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("report %s: %w", r.Name, err)
	}
	return Write(filepath.Join(folder, r.Name+".json"), text.Bytes())
}

// Write writes a file of results, with the folders above it.
func Write(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// ErrShort says that a bar was missed. Its line has told which and by how much.
var ErrShort = errors.New("short")

// Err is nil when all bars hold; else it wraps ErrShort and counts them.
func (r Report) Err() error {
	short := 0
	for _, b := range r.Bars {
		if !b.Holds() {
			short++
		}
	}
	if short == 0 {
		return nil
	}
	return fmt.Errorf("%s: %d of %d bars are %w", r.Name, short, len(r.Bars), ErrShort)
}
