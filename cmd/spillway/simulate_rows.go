package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spillway-llm/spillway/internal/export"
	"github.com/spillway-llm/spillway/internal/feature"
)

// decisionRows gathers the decisions of one simulation for a file.
type decisionRows struct {
	file *draft
	csv  bool
	rows []export.Row
}

// rowsTo begins a file of decisions, whose format its name tells; "" is none.
func (s *simulation) rowsTo(name string) (*decisionRows, error) {
	if name == "" {
		return nil, nil
	}
	format := filepath.Ext(name)
	switch {
	case len(s.arms)*len(s.loads)*len(s.seeds) != 1:
		return nil, fmt.Errorf("it takes the decisions of one run, and this is %d: want one of --policies, one --load and --seeds 1",
			len(s.arms)*len(s.loads)*len(s.seeds))
	case format != ".parquet" && format != ".csv":
		return nil, fmt.Errorf("%s has no ending that tells a format: want .parquet or .csv", name)
	}
	file, err := draftOf(name)
	return &decisionRows{file: file, csv: format == ".csv"}, err
}

// add takes a decision as it would come back from the store: times in
// microseconds, an id that tells its time.
func (r *decisionRows) add(d *feature.Decision, o *feature.Outcome) {
	row := export.Row{Decision: *d, Forecast: feature.NoForecast, Corrected: feature.NoForecast, Outcome: *o}
	at := d.DecidedAt.Truncate(time.Microsecond)
	row.Decision.DecidedAt, row.Outcome.DecidedAt = at, at
	row.Outcome.FinishedAt = o.FinishedAt.Truncate(time.Microsecond)
	row.Decision.ID = numbered(d.ID, at)
	row.Outcome.Decision = row.Decision.ID
	for i := range d.Candidates {
		if c := &d.Candidates[i]; c.Endpoint == d.Chosen && d.Chosen != "" {
			row.Forecast, row.Corrected = c.Forecast, c.Corrected
		}
	}
	r.rows = append(r.rows, row)
}

// numbered is a UUIDv7 of its time (RFC 9562, section 5.7) with the number that a
// simulation gave.
func numbered(id feature.ID, at time.Time) feature.ID {
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16)
	id[6], id[8] = 0x70, 0x80
	return id
}

// end writes the file, in the order of decisions, unless the run failed. Without
// a file it passes on how the run ended.
func (r *decisionRows) end(failed error) error {
	if r == nil {
		return failed
	}
	if failed == nil && len(r.rows) == 0 {
		failed = errors.New("--rows: no decision was made for a request of its own: want a policy that is asked for every request")
	}
	if failed == nil {
		if err := r.write(); err != nil {
			failed = fmt.Errorf("--rows: %w", err)
		}
	}
	return r.file.end(failed)
}

func (r *decisionRows) write() error {
	slices.SortFunc(r.rows, func(a, b export.Row) int { // ids begin with the time in milliseconds
		if c := a.Decision.DecidedAt.Compare(b.Decision.DecidedAt); c != 0 {
			return c
		}
		return bytes.Compare(a.Decision.ID[:], b.Decision.ID[:])
	})
	buffer := bufio.NewWriterSize(r.file, 1<<20)
	var w exporter = export.NewParquet(buffer)
	if r.csv {
		var err error
		if w, err = export.NewCSV(buffer); err != nil {
			return err
		}
	}
	for i := range r.rows {
		if err := w.Write(&r.rows[i]); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), buffer.Flush())
}
