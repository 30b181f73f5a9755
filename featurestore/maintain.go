package featurestore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Day partitions are named table_YYYYMMDD after their UTC day.
const (
	day        = 24 * time.Hour
	dayInName  = "20060102"
	maxDays    = 366
	waitAtMost = `SET LOCAL lock_timeout = '30s'` // for others who change the schema
	lockAtMost = `SET LOCAL lock_timeout = '5s'`  // for writers, who meanwhile wait behind it
)

var partitioned = []string{"decisions", "outcomes"}

// Maintenance is what Maintain did.
type Maintenance struct {
	Created []string // partitions made
	Dropped []string // partitions dropped
	Expired int64    // rows deleted from the default partitions
	Emptied int64    // bundles whose bytes were dropped
}

// Maintain makes the day partitions of today and the days within ahead of now
// (at most 366), moves rows that arrived before their partition into it, and
// drops what is older than retention, in whole days; a retention of 0 keeps
// everything. Of bundles as old it drops the bytes and keeps the verdicts, but
// touches none that was served since, nor the last 10 accepted ones of an LLM,
// which a person may roll back to. It is safe to call from several processes and as often as one
// likes; a writer waits for it for an instant only. Call it at least once
// every ahead.
func (s *Store) Maintain(ctx context.Context, now time.Time, ahead, retention time.Duration) (Maintenance, error) {
	var done Maintenance
	if ahead < 0 || ahead > maxDays*day || retention < 0 {
		return done, fmt.Errorf("maintain partitions: ahead %v must be 0 to %d days, retention %v not negative", ahead, maxDays, retention)
	}
	today := now.UTC().Truncate(day)
	for _, table := range partitioned {
		existing, err := s.partitions(ctx, table)
		if err != nil {
			return done, err
		}
		// One short transaction a partition: each takes a lock that writers wait for.
		for d := today; !d.After(now.Add(ahead).UTC()); d = d.Add(day) {
			if existing[d] {
				continue
			}
			if err := s.createPartition(ctx, table, d); err != nil {
				return done, err
			}
			done.Created = append(done.Created, partitionName(table, d))
		}
		if retention == 0 {
			continue
		}
		oldest := now.Add(-retention).UTC().Truncate(day)
		for _, d := range slices.SortedFunc(maps.Keys(existing), time.Time.Compare) {
			if !d.Before(oldest) {
				continue
			}
			if err := s.dropPartition(ctx, table, d); err != nil {
				return done, err
			}
			done.Dropped = append(done.Dropped, partitionName(table, d))
		}
		tag, err := s.pool.Exec(ctx, fmt.Sprintf(deleteExpired, table), oldest)
		if err != nil {
			return done, failed("delete expired rows", err)
		}
		done.Expired += tag.RowsAffected()
	}
	if retention > 0 {
		var err error
		if done.Emptied, err = s.emptyBundles(ctx, now.Add(-retention)); err != nil {
			return done, err
		}
	}
	if len(done.Created)+len(done.Dropped) > 0 || done.Emptied > 0 {
		s.log.Info("store maintained", "partitions_created", len(done.Created), "partitions_dropped", len(done.Dropped),
			"bundles_emptied", done.Emptied)
	}
	return done, nil
}

// bundlesKept is how many accepted bundles of an LLM keep their bytes however
// old they are.
const bundlesKept = 10

const (
	// Nobody rolls back meanwhile; reading goes on.
	lockServed = `LOCK TABLE served IN EXCLUSIVE MODE`

	emptyBundles = `
		UPDATE bundles b SET bytes = '', emptied_at = clock_timestamp()
		WHERE b.created_at < $1 AND b.emptied_at IS NULL
			AND NOT EXISTS (SELECT FROM served s WHERE s.bundle = b.version)
			AND NOT EXISTS (SELECT FROM served_history h WHERE h.bundle = b.version AND h.changed_at >= $1)
			AND NOT (b.accepted AND b.version IN (
				SELECT k.version FROM bundles k WHERE k.llm = b.llm AND k.accepted ORDER BY k.version DESC LIMIT $2))`
)

// emptyBundles drops the bytes of bundles made before oldest that nobody will
// ask for.
func (s *Store) emptyBundles(ctx context.Context, oldest time.Time) (n int64, err error) {
	err = s.underLock(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockServed); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, emptyBundles, oldest, bundlesKept)
		n = tag.RowsAffected()
		return err
	})
	if err != nil {
		return 0, failed("drop the bytes of old bundles", err)
	}
	return n, nil
}

const deleteExpired = `DELETE FROM %s_default WHERE decided_at < $1`

func partitionName(table string, d time.Time) string { return table + "_" + d.Format(dayInName) }

const selectPartitions = `
	SELECT c.relname
	FROM pg_inherits i
	JOIN pg_class c ON c.oid = i.inhrelid
	WHERE i.inhparent = $1::text::regclass
	ORDER BY c.relname`

// partitions lists the days that table has partitions for.
func (s *Store) partitions(ctx context.Context, table string) (map[time.Time]bool, error) {
	rows, err := s.pool.Query(ctx, selectPartitions, table)
	if err != nil {
		return nil, failed("list partitions", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, failed("list partitions", err)
	}
	days := make(map[time.Time]bool, len(names))
	for _, name := range names {
		if d, ok := dayOf(table, name); ok {
			days[d] = true
		}
	}
	return days, nil
}

// dayOf reads the day in a partition's name; the default one has none.
func dayOf(table, name string) (time.Time, bool) {
	d, err := time.Parse(dayInName, strings.TrimPrefix(name, table+"_"))
	return d, err == nil
}

// A new partition is filled from the default one and then attached: creating
// it in place would lock the whole table and fail on rows already there. The
// check lets ATTACH trust the rows without reading them.
var createPartition = []string{
	`LOCK TABLE {table}_default IN ACCESS EXCLUSIVE MODE`,
	`CREATE TABLE {name} (LIKE {table} INCLUDING ALL,
		CONSTRAINT {name}_day CHECK (decided_at >= '{from}' AND decided_at < '{to}'))`,
	`WITH moved AS (
			DELETE FROM {table}_default WHERE decided_at >= '{from}' AND decided_at < '{to}' RETURNING *)
		INSERT INTO {name} SELECT * FROM moved`,
	`ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ('{from}') TO ('{to}')`,
	`ALTER TABLE {name} DROP CONSTRAINT {name}_day`,
}

const (
	partitionExists = `SELECT to_regclass($1::text) IS NOT NULL`
	dropPartition   = `DROP TABLE IF EXISTS %s`
)

func (s *Store) createPartition(ctx context.Context, table string, d time.Time) error {
	name := partitionName(table, d)
	names := strings.NewReplacer("{table}", table, "{name}", name,
		"{from}", d.Format(time.RFC3339), "{to}", d.Add(day).Format(time.RFC3339))
	err := s.underLock(ctx, func(tx pgx.Tx) error {
		var exists bool
		if err := tx.QueryRow(ctx, partitionExists, name).Scan(&exists); err != nil || exists {
			return err
		}
		for _, sql := range createPartition {
			if _, err := tx.Exec(ctx, names.Replace(sql)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return failed("create partition "+name, err)
	}
	return nil
}

func (s *Store) dropPartition(ctx context.Context, table string, d time.Time) error {
	name := partitionName(table, d)
	err := s.underLock(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, fmt.Sprintf(dropPartition, name))
		return err
	})
	if err != nil {
		return failed("drop partition "+name, err)
	}
	return nil
}

// underLock runs do in a transaction that changes the schema. It gives up
// rather than hold up the writers behind a long query.
func (s *Store) underLock(ctx context.Context, do func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, waitAtMost); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, takeLock, lockKey); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, lockAtMost); err != nil {
			return err
		}
		return do(tx)
	})
}
