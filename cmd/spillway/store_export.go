package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/internal/export"
)

// exporting is what "spillway store export" was asked for.
type exporting struct {
	out, format, llm string
	window           time.Duration
	candidates       bool
}

// exportFormats are the formats that rows are written in, by the ending of a
// file's name.
var exportFormats = []string{"parquet", "csv"}

// exporter writes one format.
type exporter interface {
	Write(*export.Row) error
	Close() error
}

func storeExportCommand() *cobra.Command {
	var e exporting
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write decisions and outcomes to a Parquet or CSV file",
		Long: `Write the decisions of the store, each with the last attempt of its request, to
one file, oldest first. docs/data.md tells what the columns mean. "spillway
evaluate forecasts --rows" reads such a file, and with --candidates "spillway
evaluate policy --rows". Decisions of a version whose vector
had another width have no place in the columns and are left out. The file takes its
name when it is whole; until then it ends in .part.`,
		Example: `  DATABASE_URL=postgres://... spillway store export --out rows.parquet
  DATABASE_URL=postgres://... spillway store export --window 24h --llm qwen3-32b --out rows.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := e.check(); err != nil {
				return err
			}
			rows, err := e.run(cmd)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "%d decisions written to %s\n", rows, e.out) // --out may be standard output
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&e.out, "out", "", "file to write")
	f.StringVar(&e.format, "format", "", "parquet or csv (default: by the name of the file)")
	f.StringVar(&e.llm, "llm", "", "LLM whose decisions to write (default: all)")
	f.DurationVar(&e.window, "window", 0, "how far back decisions go, such as 24h (default: all there are)")
	f.BoolVar(&e.candidates, "candidates", false, "with all that is stored of the candidates, as \"spillway evaluate policy\" needs it: some ten times as large")
	return cmd
}

// check finds mistakes in the flags alone, and settles the format.
func (e *exporting) check() error {
	e.format = cmp.Or(e.format, strings.TrimPrefix(filepath.Ext(e.out), "."))
	switch {
	case e.out == "":
		return errors.New("--out is needed: the file to write, such as rows.parquet")
	case e.format != exportFormats[0] && e.format != exportFormats[1]:
		return fmt.Errorf("--format: %q is no format: want %s", e.format, strings.Join(exportFormats, " or "))
	case e.window < 0:
		return fmt.Errorf("--window: %v is no time back from now: want a positive duration, such as 24h", e.window)
	}
	return nil
}

// run writes the file; where that fails, what stood there before stays.
func (e *exporting) run(cmd *cobra.Command) (rows int, err error) {
	store, err := askStore(cmd)
	if err != nil {
		return 0, err
	}
	defer store.Close()
	file, err := draftOf(e.out)
	if err != nil {
		return 0, fmt.Errorf("--out: %w", err)
	}
	buffer := bufio.NewWriterSize(file, 1<<20)
	defer func() {
		if err == nil {
			if err = buffer.Flush(); err != nil {
				err = fmt.Errorf("--out %s: %w", e.out, err)
			}
		}
		err = file.end(err)
	}()
	var w exporter = export.NewParquet(buffer)
	if e.format == "csv" {
		if w, err = export.NewCSV(buffer); err != nil {
			return 0, fmt.Errorf("--out %s: %w", e.out, err)
		}
	}
	now := time.Now()
	from := time.Unix(0, 0)
	if e.window > 0 {
		from = now.Add(-e.window)
	}
	read := store.Joined
	if e.candidates {
		read = store.Whole
	}
	for j, err := range read(cmd.Context(), e.llm, from, now) {
		if err != nil {
			return rows, err
		}
		row := export.Row(j)
		if err := w.Write(&row); err != nil {
			return rows, fmt.Errorf("--out %s: %w", e.out, err)
		}
		rows++
	}
	if rows == 0 {
		return 0, e.none()
	}
	if err := w.Close(); err != nil {
		return rows, fmt.Errorf("--out %s: %w", e.out, err)
	}
	return rows, nil
}

// none is the error of nothing to write.
func (e *exporting) none() error {
	what := "decisions"
	if e.llm != "" {
		what += " of " + e.llm
	}
	if e.window > 0 {
		return fmt.Errorf("--window %v: no %s are that young", e.window, what)
	}
	return fmt.Errorf("the store at DATABASE_URL holds no %s", what)
}
