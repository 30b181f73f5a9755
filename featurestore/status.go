package featurestore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Status is what a person asks of the store.
type Status struct {
	Migration int64       `json:"migration"` // the schema's version
	Latest    int64       `json:"latest"`    // this binary's version of the schema
	Decisions TableStatus `json:"decisions"`
	Outcomes  TableStatus `json:"outcomes"`
	Joined    int64       `json:"joined"`   // decisions that have an outcome
	Bundles   int64       `json:"bundles"`  // stored
	Accepted  int64       `json:"accepted"` // of those
	Served    []Pointer   `json:"served"`
	Bytes     int64       `json:"bytes"` // of the whole database
}

// TableStatus is what a person asks of a partitioned table.
type TableStatus struct {
	Rows       int64     `json:"rows"`
	Bytes      int64     `json:"bytes"`
	Partitions int       `json:"partitions"`      // days
	Stray      int64     `json:"stray"`           // rows of days without a partition
	Oldest     time.Time `json:"oldest,omitzero"` // zero when empty
	Newest     time.Time `json:"newest,omitzero"`
}

// Status counts rows and sizes. It reads the keys of all rows, so it takes a
// second per some million rows. On a database without the schema it returns
// Migration 0 and nothing else.
func (s *Store) Status(ctx context.Context) (Status, error) {
	var st Status
	var err error
	if st.Migration, st.Latest, err = s.Version(ctx); err != nil || st.Migration == 0 {
		return st, err
	}
	if st.Decisions, err = s.tableStatus(ctx, "decisions"); err != nil {
		return st, err
	}
	if st.Outcomes, err = s.tableStatus(ctx, "outcomes"); err != nil {
		return st, err
	}
	err = s.pool.QueryRow(ctx, selectTotals).Scan(&st.Joined, &st.Bundles, &st.Accepted, &st.Bytes)
	if err != nil {
		return st, failed("count bundles", err)
	}
	st.Served, err = s.ServedLLMs(ctx)
	return st, err
}

// Version returns the version of the database's schema, 0 without one, and of
// this binary's. It counts nothing.
func (s *Store) Version(ctx context.Context) (migration, latest int64, err error) {
	provider, done, err := s.migrations()
	if err != nil {
		return 0, 0, err
	}
	defer done()
	if migration, latest, err = provider.GetVersions(ctx); err != nil {
		return 0, 0, failed("read the version of the schema", err)
	}
	return migration, latest, nil
}

const selectTotals = `
	SELECT
		(SELECT count(*) FROM decisions d WHERE EXISTS (
			SELECT FROM outcomes o WHERE o.decided_at = d.decided_at AND o.decision = d.id)),
		(SELECT count(*) FROM bundles),
		(SELECT count(*) FROM bundles WHERE accepted),
		pg_database_size(current_database())`

const selectTable = `
	SELECT
		(SELECT count(*) FROM %[1]s),
		(SELECT count(*) FROM %[1]s_default),
		(SELECT min(decided_at) FROM %[1]s),
		(SELECT max(decided_at) FROM %[1]s),
		(SELECT coalesce(sum(pg_total_relation_size(inhrelid)), 0)::bigint FROM pg_inherits WHERE inhparent = '%[1]s'::regclass),
		(SELECT count(*) - 1 FROM pg_inherits WHERE inhparent = '%[1]s'::regclass)`

func (s *Store) tableStatus(ctx context.Context, table string) (TableStatus, error) {
	var t TableStatus
	var oldest, newest pgtype.Timestamptz
	err := s.pool.QueryRow(ctx, fmt.Sprintf(selectTable, table)).
		Scan(&t.Rows, &t.Stray, &oldest, &newest, &t.Bytes, &t.Partitions)
	if err != nil {
		return t, failed("read the status of "+table, err)
	}
	t.Oldest, t.Newest = timeOf(oldest), timeOf(newest)
	return t, nil
}
