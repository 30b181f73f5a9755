package featurestore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Import stores rows that Joined or Whole read elsewhere, in one transaction,
// and says how many of the decisions were new. Decisions and outcomes already
// stored are left as they are, as by WriteDecisions and WriteOutcomes. Rows of a
// day without a partition (see Partition) go to the default one.
func (s *Store) Import(ctx context.Context, rows []Joined) (added int64, err error) {
	var outcomes []feature.Outcome
	for i := range rows {
		if rows[i].Outcome.Attempt > 0 {
			outcomes = append(outcomes, rows[i].Outcome)
		}
	}
	err = s.writing(ctx, func(tx pgx.Tx) error {
		if added, err = addDecisions(ctx, tx, len(rows), func(i int) []any { return joinedValues(&rows[i]) }); err != nil {
			return err
		}
		return addOutcomes(ctx, tx, outcomes)
	})
	return added, err
}

// Where the forecasts of the chosen one stand in decisionColumns.
var (
	atForecast  = slices.Index(decisionColumns, "chosen_forecast")
	atCorrected = slices.Index(decisionColumns, "chosen_corrected")
)

// joinedValues is decisionValues of a decision whose chosen one's forecasts stand
// beside it: without candidates they stand nowhere else, and candidates that were
// read from a file have the medians alone.
func joinedValues(j *Joined) []any {
	d := j.Decision
	d.Candidates = slices.Clone(d.Candidates)
	for i := range d.Candidates {
		if c := &d.Candidates[i]; d.Chosen != "" && c.Endpoint == d.Chosen {
			c.Forecast, c.Corrected = j.Forecast, j.Corrected
		}
	}
	values := decisionValues(&d)
	if d.Chosen != "" {
		values[atForecast], values[atCorrected] = appendForecast(nil, &j.Forecast), appendForecast(nil, &j.Corrected)
	}
	return values
}

// Partition makes the partitions of the UTC days of those moments, where they
// are missing, and moves rows of these days into them that are stored already.
// At most 366 are made; more is an error, and none is made. A retention drops
// them as all others.
func (s *Store) Partition(ctx context.Context, moments []time.Time) (created []string, err error) {
	days := map[time.Time]bool{}
	for _, at := range moments {
		days[at.UTC().Truncate(day)] = true
	}
	type missing struct {
		table string
		day   time.Time
	}
	var all []missing
	for _, table := range partitioned {
		existing, err := s.partitions(ctx, table)
		if err != nil {
			return nil, err
		}
		for _, d := range slices.SortedFunc(maps.Keys(days), time.Time.Compare) {
			if !existing[d] {
				all = append(all, missing{table, d})
			}
		}
	}
	if len(all) > len(partitioned)*maxDays {
		return nil, fmt.Errorf("make partitions: %d days have none, and at most %d are made at once", len(days), maxDays)
	}
	for _, m := range all {
		if err := s.createPartition(ctx, m.table, m.day); err != nil {
			return created, err
		}
		created = append(created, partitionName(m.table, m.day))
	}
	return created, nil
}
