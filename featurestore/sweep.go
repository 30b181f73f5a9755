package featurestore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// Decisions whose outcome never came, in one table and a span of it that one
// partition covers; the database then reads no other.
const (
	insertLost = `
		INSERT INTO outcomes (decided_at, decision, attempt, status, endpoint)
		SELECT d.decided_at, d.id, 1, 'lost', d.chosen
		FROM %s d
		WHERE ($1 = '' OR d.router = $1) AND d.decided_at >= $2 AND d.decided_at < $3
			AND NOT EXISTS (SELECT FROM outcomes o
				WHERE o.decided_at >= $2 AND o.decided_at < $3 AND o.decided_at = d.decided_at AND o.decision = d.id)
		ORDER BY d.decided_at, d.id
		ON CONFLICT (decided_at, decision, attempt) DO NOTHING`

	// A real outcome and the sweep that misses it can be written at once,
	// neither seeing the other.
	deleteNotLost = `
		DELETE FROM outcomes o
		WHERE o.decided_at >= $1 AND o.decided_at < $2 AND o.status = 'lost'
			AND EXISTS (SELECT FROM outcomes r
				WHERE r.decided_at >= $1 AND r.decided_at < $2 AND r.decided_at = o.decided_at AND r.decision = o.decision
					AND r.status <> 'lost')`

	// Grows with every row that a partition gets, soon after it got it. A
	// reset makes it another number, which is all that counts here.
	selectInserted = `
		SELECT c.relname, s.n_tup_ins
		FROM pg_inherits i
		JOIN pg_class c ON c.oid = i.inhrelid
		JOIN pg_stat_user_tables s ON s.relid = i.inhrelid
		WHERE i.inhparent = 'decisions'::regclass`
)

// swept is what a store remembers of its sweeps.
type swept struct {
	lost atomic.Int64 // rows written

	mu   sync.Mutex
	days map[sweptDay]int64 // selectInserted before the last sweep of a whole day
}

type sweptDay struct {
	router string
	day    time.Time
}

// Sweep writes a lost outcome for every decision of router, of any router when
// that is empty, that was made before olderThan and has none, and returns how
// many it wrote. Should a real outcome still come, from the spool of a router
// that was away, it replaces the lost one.
//
// It looks at all days that retention keeps, one after the other: a spool can
// bring decisions of days ago. A day that is over and got no decision since
// the same sweep last went over it is left out. Call it as often as one likes,
// for a router's own decisions and with a later olderThan for those of others,
// which may be gone for good.
func (s *Store) Sweep(ctx context.Context, router string, olderThan time.Time) (int64, error) {
	router, olderThan = storable(router), stored(olderThan)
	inserted, err := s.insertedByDay(ctx)
	if err != nil {
		return 0, err
	}
	// Rows of days without a partition.
	total, err := s.sweep(ctx, "decisions_default", router, time.Time{}, olderThan)
	if err != nil {
		return total, err
	}
	for _, d := range slices.SortedFunc(maps.Keys(inserted), time.Time.Compare) {
		key, end := sweptDay{router, d}, d.Add(day)
		if !d.Before(olderThan) || s.swept.since(key, inserted[d]) {
			continue
		}
		n, err := s.sweep(ctx, "decisions", router, d, earlier(end, olderThan))
		total += n
		if err != nil {
			return total, err
		}
		if !olderThan.Before(end) {
			s.swept.note(key, inserted[d])
		}
	}
	s.swept.forget(inserted)
	return total, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// sweep does so for the decisions of table made in [from, to).
func (s *Store) sweep(ctx context.Context, table, router string, from, to time.Time) (int64, error) {
	tag, err := s.pool.Exec(ctx, fmt.Sprintf(insertLost, table), router, from, to)
	if err != nil {
		return 0, failed("sweep lost outcomes", err)
	}
	n := tag.RowsAffected()
	s.swept.lost.Add(n)
	if _, err := s.pool.Exec(ctx, deleteNotLost, from, to); err != nil {
		return n, failed("sweep lost outcomes", err)
	}
	return n, nil
}

// insertedByDay counts what the day partitions of decisions ever got.
func (s *Store) insertedByDay(ctx context.Context) (map[time.Time]int64, error) {
	rows, err := s.pool.Query(ctx, selectInserted)
	if err != nil {
		return nil, failed("count what days got", err)
	}
	inserted := map[time.Time]int64{}
	var name string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error {
		if d, ok := dayOf("decisions", name); ok {
			inserted[d] = n
		}
		return nil
	})
	if err != nil {
		return nil, failed("count what days got", err)
	}
	return inserted, nil
}

// since reports whether nothing was inserted since the day was swept.
func (w *swept) since(key sweptDay, inserted int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, ok := w.days[key]
	return ok && before == inserted
}

func (w *swept) note(key sweptDay, inserted int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.days == nil {
		w.days = map[sweptDay]int64{}
	}
	w.days[key] = inserted
}

// forget drops the days that are there no more.
func (w *swept) forget(there map[time.Time]int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.days, func(key sweptDay, _ int64) bool { _, ok := there[key.day]; return !ok })
}
