package main

import (
	"bufio"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-llm/spillway/internal/evaluate"
	"github.com/spillway-llm/spillway/internal/evaluate/refit"
	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/measured"
)

// refitted judges bundles that are fitted for it.
func (j *judging) refitted(cmd *cobra.Command) ([]evaluate.Report, error) {
	config, _, _, err := (&configFlags{file: j.config}).load(cmd)
	if err != nil {
		return nil, err
	}
	trains, err := config.trainer()
	if err != nil {
		return nil, err
	}
	rows, err := j.fitRows(cmd)
	if err != nil {
		return nil, err
	}
	reports, err := refit.Judge(cmd.Context(), rows, refit.Options{
		LLM: j.rows.own.llm, At: time.Now(), Load: j.load, Seed: j.seed, Settings: trains.Settings(),
	})
	if err != nil {
		return nil, fmt.Errorf("--refit: %w", err)
	}
	return reports, nil
}

// fitRows reads what can be learned from, the newest outcomeRows of it. What it
// leaves out is told on standard error.
func (j *judging) fitRows(cmd *cobra.Command) ([]refit.Row, error) {
	if j.rows.areMeasured() {
		return j.measuredRows(cmd)
	}
	var rows []refit.Row
	used, why := 0, map[evaluate.LeftOut]int{}
	err := j.rows.each(cmd, func(logged *feature.Row) error {
		r, leftOut := refit.RowOf(logged, j.column)
		if leftOut != "" {
			why[leftOut]++
			return nil
		}
		used++
		if rows = append(rows, r); len(rows) == 2*outcomeRows {
			rows = append([]refit.Row(nil), rows[outcomeRows:]...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if j.rows.seen == 0 {
		return nil, j.rows.none()
	}
	for _, leftOut := range evaluate.LeftOuts() {
		if n := why[leftOut]; n > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "%d rows left out: %s\n", n, leftOut)
		}
	}
	if used > outcomeRows {
		fmt.Fprintf(cmd.ErrOrStderr(), "--refit: only the newest %d of %d rows are used\n", outcomeRows, used)
		rows = rows[len(rows)-outcomeRows:]
	}
	return rows, nil
}

// measuredRows reads the measurements of others.
func (j *judging) measuredRows(cmd *cobra.Command) ([]refit.Row, error) {
	profile, err := engineProfile(j.profile)
	if err != nil {
		return nil, fmt.Errorf("--profile: %w", err)
	}
	dispatches, warnings, err := readRows(j.rows.files, measured.LatencyPredictor)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), w)
	}
	j.rows.own.llm = baseNames(j.rows.files)
	return refit.Measured(dispatches, profile, j.column), nil
}

// areMeasured reports whether all files are JSON lines. One that cannot be read
// is told by who reads it.
func (l *loggedRows) areMeasured() bool {
	for _, name := range l.files {
		if !isMeasured(name) {
			return false
		}
	}
	return len(l.files) > 0
}

func isMeasured(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	r, err := measured.Open(f)
	if err != nil {
		return false
	}
	first, _ := bufio.NewReader(r).Peek(1)
	return string(first) == "{"
}
