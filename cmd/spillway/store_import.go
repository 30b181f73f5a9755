package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/internal/export"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/loadgen"
)

// A batch is written in one transaction: so many rows at most, and so many bytes
// of candidates.
const (
	importBatchRows  = 2000
	importBatchBytes = 16 << 20
)

func storeImportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE...",
		Short: "Read decisions and outcomes from files that \"store export\" wrote",
		Long: `Read the decisions and outcomes of files that "spillway store export" wrote, Parquet
or CSV (also gzipped), with candidates or without them, into the store. Of a file
without candidates the decisions have none here either. What is there already is left
as it is, so a file may be imported again.

Every file is read twice: unless all rows of all files are good, none is imported.
Rows must be of this build's vector. Days get the partitions they lack; where a trainer
or "store migrate" runs with a store.retention, days that are older are dropped again.`,
		Example: `  DATABASE_URL=postgres://... spillway store import rows.parquet
  DATABASE_URL=postgres://... spillway store import monday.csv.gz tuesday.csv.gz`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("want the files to import: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, files []string) error {
			store, err := askStore(cmd)
			if err != nil {
				return err
			}
			defer store.Close()
			return importFiles(cmd.Context(), cmd.OutOrStdout(), store, files, time.Now())
		},
	}
}

// importFiles checks all files, then writes all of them.
func importFiles(ctx context.Context, w io.Writer, store *featurestore.Store, files []string, now time.Time) error {
	found, err := checkFiles(ctx, files, now)
	if err != nil {
		return fmt.Errorf("nothing was imported: %w", err)
	}
	if _, err := store.Partition(ctx, found.days); err != nil {
		return fmt.Errorf("nothing was imported: %w", err)
	}
	bar := importBar(int64(found.total()), "importing")
	defer func() { _ = bar.Finish() }()
	for i, name := range files {
		written, added, err := importFile(ctx, store, name, bar)
		if err != nil {
			return fmt.Errorf("%s: stopped after %d of its %d decisions, which are in the store; importing again goes on with the rest: %w",
				name, written, found.rows[i], err)
		}
		fmt.Fprintf(w, "%s: %d decisions, %d of them new\n", name, written, added)
	}
	return nil
}

// foundRows is what stands in files.
type foundRows struct {
	rows []int       // of each file
	days []time.Time // that there are decisions of, in UTC
}

func (f *foundRows) total() (n int) {
	for _, rows := range f.rows {
		n += rows
	}
	return n
}

// checkFiles reads every row.
func checkFiles(ctx context.Context, files []string, now time.Time) (foundRows, error) {
	var found foundRows
	expected := int64(0)
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			return found, err
		}
		if !info.Mode().IsRegular() {
			return found, fmt.Errorf("%s: want a regular file: it is read twice", name)
		}
		rows, err := rowsOf(name)
		if err != nil {
			return found, fmt.Errorf("%s: %w", name, err)
		}
		if rows < 0 || expected < 0 {
			expected = -1 // only reading it tells
			continue
		}
		expected += rows
	}
	bar := importBar(expected, "checking")
	defer func() { _ = bar.Finish() }()
	for _, name := range files {
		n := 0
		err := eachExported(name, func(r *export.Row) error {
			n++
			_ = bar.Add(1) // a bar that cannot be drawn is no reason to fail
			if err := r.Check(now); err != nil {
				return fmt.Errorf("row %d: %w", n, err)
			}
			day := r.Decision.DecidedAt.UTC().Truncate(24 * time.Hour)
			if last := len(found.days); last == 0 || found.days[last-1] != day && !slices.Contains(found.days, day) {
				found.days = append(found.days, day)
			}
			return ctx.Err()
		})
		if err != nil {
			return found, fmt.Errorf("%s: %w", name, err)
		}
		if n == 0 {
			return found, fmt.Errorf("%s has no decisions", name)
		}
		found.rows = append(found.rows, n)
	}
	return found, nil
}

// importFile writes the rows of a file, and says how many decisions are in the
// store now and how many of them were not before, also when it fails.
func importFile(ctx context.Context, store *featurestore.Store, name string, bar *progressbar.ProgressBar) (written, added int, err error) {
	var batch []featurestore.Joined
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		n, err := store.Import(ctx, batch)
		if err != nil {
			return err
		}
		written, added = written+len(batch), added+int(n)
		_ = bar.Add(len(batch))
		batch, size = batch[:0], 0
		return nil
	}
	err = eachExported(name, func(r *export.Row) error {
		batch = append(batch, featurestore.Joined(*r))
		size += len(r.Decision.States) + len(r.Decision.Candidates)*feature.VectorSize
		if len(batch) < importBatchRows && size < importBatchBytes {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	return written, added, err
}

// eachExported gives do every row of a file that "store export" wrote.
func eachExported(name string, do func(*export.Row) error) error {
	rows, done, err := openExport(name)
	if err != nil {
		return err
	}
	for r, err := range rows {
		if err == nil {
			err = do(&r)
		}
		if err != nil {
			return errors.Join(err, done())
		}
	}
	return done()
}

// importBar counts decisions; a total below 0 is not known.
func importBar(total int64, doing string) *progressbar.ProgressBar {
	w := loadgen.Terminal()
	if w == nil {
		w = io.Discard
	}
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(doing),
		progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("decisions"),
		progressbar.OptionThrottle(200*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetSpinnerChangeInterval(0), // it moves with decisions, no goroutine needed
	)
}
