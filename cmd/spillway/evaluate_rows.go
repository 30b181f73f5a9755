package main

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/internal/export"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/measured"
)

// loggedRows says where the rows of an evaluation are: in the store or in
// files, and of which LLM.
type loggedRows struct {
	own   ownRows
	files []string
	seen  int // rows of the LLM that were read
}

func (l *loggedRows) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.DurationVar(&l.own.window, "window", 0, "judge the rows of the last so long from the store at DATABASE_URL, such as 24h")
	f.StringArrayVar(&l.files, "rows", nil, "judge the rows of this file instead: an export (Parquet, CSV, CSV.gz), or with --refit JSON lines of measured-h200; may be given again, in order of time")
	f.StringVar(&l.own.llm, "llm", "", "LLM whose rows to judge (default: the only one)")
}

// check finds mistakes in the flags alone.
func (l *loggedRows) check() error {
	switch {
	case len(l.files) == 0 && l.own.window == 0:
		return errors.New("--window or --rows is needed: which rows to judge")
	case len(l.files) > 0 && l.own.window != 0:
		return errors.New("--window takes rows from the store and --rows from files: want one of them")
	case len(l.files) > 0:
		return nil
	}
	return l.own.check()
}

// each gives do every row of the LLM in order of time; the rows are all of this
// build's schema. It fills
// in the LLM where it was not given.
func (l *loggedRows) each(cmd *cobra.Command, do func(row *feature.Row) error) error {
	if len(l.files) > 0 {
		return l.eachOfFiles(do)
	}
	rows, done, err := l.own.open(cmd, 0)
	if err != nil {
		return err
	}
	defer done()
	return l.eachOf(rows, do)
}

func (l *loggedRows) eachOfFiles(do func(*feature.Row) error) error {
	var last time.Time
	for _, name := range l.files {
		rows, done, err := openExport(name)
		if err != nil {
			return fmt.Errorf("--rows %s: %w", name, err)
		}
		err = l.eachOf(func(yield func(feature.Row, error) bool) {
			for r, err := range rows {
				if err == nil && r.Decision.DecidedAt.Before(last) {
					err = fmt.Errorf("a row of %s stands behind one of %s: want files in order of time",
						r.Decision.DecidedAt.Format(time.RFC3339), last.Format(time.RFC3339))
				}
				if err != nil {
					yield(feature.Row{}, err)
					return
				}
				last = r.Decision.DecidedAt
				row, _ := r.Learned()
				if !yield(row, nil) {
					return
				}
			}
		}, do)
		if err = errors.Join(err, done()); err != nil {
			return fmt.Errorf("--rows %s: %w", name, err)
		}
	}
	return nil
}

func (l *loggedRows) eachOf(rows iter.Seq2[feature.Row, error], do func(*feature.Row) error) error {
	given := l.own.llm != ""
	for r, err := range rows {
		switch {
		case err != nil:
			return err
		case l.own.llm == "":
			l.own.llm = r.LLM
		case r.LLM != l.own.llm && given:
			continue
		case r.LLM != l.own.llm:
			return fmt.Errorf("--llm is needed: there are rows of %s and of %s", l.own.llm, r.LLM)
		}
		if r.Schema != feature.Schema {
			return fmt.Errorf("a row of %s has vectors of schema %s and this build reads %s: judge it with the version that logged it, or leave it out with a shorter --window",
				r.DecidedAt.UTC().Format(time.RFC3339), r.Schema, feature.Schema)
		}
		l.seen++
		if err := do(&r); err != nil {
			return err
		}
	}
	return nil
}

// none is the error of no rows at all.
func (l *loggedRows) none() error {
	if len(l.files) == 0 {
		return l.own.none(l.seen)
	}
	of := ""
	if l.own.llm != "" {
		of = " of " + l.own.llm
	}
	return fmt.Errorf("--rows: %s has no rows%s", baseNames(l.files), of)
}

// openExport reads a file that "store export" wrote; which format it has, its
// first bytes tell.
func openExport(name string) (rows iter.Seq2[export.Row, error], done func() error, err error) {
	if isMeasured(name) {
		return nil, nil, errMeasured
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	head := make([]byte, 4)
	n, _ := f.ReadAt(head, 0) // a file too short is told by its reader
	if string(head[:n]) == "PAR1" {
		info, err := f.Stat()
		if err != nil {
			return nil, nil, errors.Join(err, f.Close())
		}
		return export.ReadParquet(f, info.Size()), f.Close, nil
	}
	r, err := measured.Open(f)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return export.ReadCSV(r), f.Close, nil
}

// errMeasured is what rows of others' measurements cannot be used for.
var errMeasured = errors.New("measurements of others stand there as JSON lines, with no forecast beside them: give them alone and with --refit")
