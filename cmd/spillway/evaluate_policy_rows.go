package main

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/internal/export"
)

// wholeRows are the decisions of an evaluation with all their candidates, of one
// LLM, in the store or in files.
type wholeRows struct {
	thin  bool // without the candidates
	own   ownRows
	files []string
	given bool // the LLM
	seen  int  // decisions of the LLM that were read
	bar   *progressbar.ProgressBar
}

func (l *wholeRows) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.DurationVar(&l.own.window, "window", 0, "judge the decisions of the last so long from the store at DATABASE_URL, such as 24h")
	made := ", made with --candidates"
	if l.thin {
		made = ""
	}
	f.StringArrayVar(&l.files, "rows", nil, "judge the decisions of this export instead"+made+"; may be given again, in order of time")
	f.StringVar(&l.own.llm, "llm", "", "LLM whose decisions to judge (default: the only one)")
}

// check finds mistakes in the flags alone.
func (l *wholeRows) check() error {
	l.given = l.own.llm != ""
	switch {
	case len(l.files) == 0 && l.own.window == 0:
		return errors.New("--window or --rows is needed: which decisions to judge")
	case len(l.files) > 0 && l.own.window != 0:
		return errors.New("--window takes decisions from the store and --rows from files: want one of them")
	case len(l.files) > 0:
		return nil
	}
	return l.own.check()
}

// each gives do every decision of the LLM, in the order in which they stand. It
// fills in the LLM where it was not given.
func (l *wholeRows) each(cmd *cobra.Command, do func(*export.Row) error) (err error) {
	defer func() {
		if l.bar != nil {
			err = errors.Join(err, l.bar.Clear())
		}
	}()
	if len(l.files) > 0 {
		return l.eachOfFiles(do)
	}
	store, err := askStore(cmd)
	if err != nil {
		return err
	}
	defer store.Close()
	llms, err := store.LLMs(cmd.Context())
	if err != nil {
		return err
	}
	if l.own.llm, err = theOne("--llm", l.own.llm, llms); err != nil {
		return err
	}
	now := time.Now()
	from := now.Add(-l.own.window)
	l.progress(int64(l.own.window/time.Second), false)
	return l.eachOf(func(yield func(export.Row, error) bool) {
		read := store.Whole
		if l.thin {
			read = store.Joined
		}
		for j, err := range read(cmd.Context(), l.own.llm, from, now) {
			l.at(int64(j.Decision.DecidedAt.Sub(from) / time.Second))
			if !yield(export.Row(j), err) {
				return
			}
		}
	}, do)
}

func (l *wholeRows) eachOfFiles(do func(*export.Row) error) error {
	total := int64(0)
	for _, name := range l.files {
		rows, err := rowsOf(name)
		if err != nil {
			return fmt.Errorf("--rows %s: %w", name, err)
		}
		if rows < 0 {
			total = -1
			break
		}
		total += rows
	}
	l.progress(total, true)
	read := int64(0)
	for _, name := range l.files {
		rows, done, err := openExport(name)
		if err != nil {
			return fmt.Errorf("--rows %s: %w", name, err)
		}
		err = l.eachOf(rows, func(r *export.Row) error {
			read++
			l.at(read)
			return do(r)
		})
		if err = errors.Join(err, done()); err != nil {
			return fmt.Errorf("--rows %s: %w", name, err)
		}
	}
	return nil
}

// rowsOf is how many rows a file has; below 0: only reading it tells.
func rowsOf(name string) (int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	head := make([]byte, 4)
	if n, _ := f.ReadAt(head, 0); string(head[:n]) != "PAR1" {
		return -1, nil
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return export.ParquetRows(f, info.Size())
}

func (l *wholeRows) eachOf(rows iter.Seq2[export.Row, error], do func(*export.Row) error) error {
	for r, err := range rows {
		switch {
		case err != nil:
			return err
		case l.seen == 0 && !l.given:
			l.own.llm = r.Decision.LLM // which may be none
		case r.Decision.LLM != l.own.llm && l.given:
			continue
		case r.Decision.LLM != l.own.llm:
			return fmt.Errorf("--llm is needed: there are decisions of %q and of %q", l.own.llm, r.Decision.LLM)
		}
		l.seen++
		if err := do(&r); err != nil {
			return err
		}
	}
	return nil
}

// none is the error of no decisions at all.
func (l *wholeRows) none() error {
	if len(l.files) == 0 {
		return l.own.none(l.seen)
	}
	of := ""
	if l.own.llm != "" {
		of = " of " + l.own.llm
	}
	return fmt.Errorf("--rows: %s has no decisions%s", baseNames(l.files), of)
}

// progress begins a bar on standard error if a person may be looking at it;
// total below 0 is not known. Decisions are counted, or seconds of the window.
func (l *wholeRows) progress(total int64, decisions bool) {
	if info, err := os.Stderr.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return
	}
	options := []progressbar.Option{
		progressbar.OptionSetWriter(os.Stderr),
		progressbar.OptionSetDescription("decisions"),
		progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(200 * time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetSpinnerChangeInterval(0), // it moves with decisions, no goroutine needed
	}
	if decisions {
		options = append(options, progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("decisions"))
	}
	l.bar = progressbar.NewOptions64(total, options...)
}

// at says how far it is; once in a while is enough.
func (l *wholeRows) at(done int64) {
	if l.bar != nil && l.seen&255 == 0 {
		_ = l.bar.Set64(max(0, done)) // a bar that cannot be drawn is no reason to fail
	}
}
