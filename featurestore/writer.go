package featurestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/feature"
)

// WriterConfig of a Writer. SpoolDir is all it needs; 0 is the default of
// every other field.
type WriterConfig struct {
	QueueSize     int           // rows held in memory before the spool takes over; default 8192
	BatchSize     int           // rows of one transaction; default 512
	FlushInterval time.Duration // longest time a row waits for its batch; default 200 ms
	SpoolDir      string        // directory of the spool, for this writer alone unless SharedSpool
	SpoolBytes    int64         // most the spool holds; default 1 GiB
	SharedSpool   bool          // whether others may have SpoolDir too: each then has a folder, and takes over what ended ones left
	WriteTimeout  time.Duration // of one transaction; default 10 s
	StopTimeout   time.Duration // how long Run goes on writing after its context ended; default 5 s

	Logger     *slog.Logger          // nil is silent
	Registerer prometheus.Registerer // nil registers nothing
}

func (c *WriterConfig) setDefaults() {
	setDefault(&c.QueueSize, 8192)
	setDefault(&c.BatchSize, 512)
	setDefault(&c.FlushInterval, 200*time.Millisecond)
	setDefault(&c.SpoolBytes, 1<<30)
	setDefault(&c.WriteTimeout, 10*time.Second)
	setDefault(&c.StopTimeout, 5*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func setDefault[T int | int64 | time.Duration](v *T, value T) {
	if *v <= 0 {
		*v = value
	}
}

// Writer brings rows to the store without ever holding up who records them.
// Rows wait in a bounded queue in memory. While the database is away, or
// slower than they arrive, they go to a spool on disk, which is replayed in
// order when it is back; a full spool drops its oldest rows. A row can reach
// the database twice, which the store makes harmless, and is lost only where a
// metric says so.
//
// A killed process loses what is in memory: what it recorded in the last
// FlushInterval, and where a transaction was under way, its batch and the one
// that waits for it. A transaction that hangs is given up after WriteTimeout
// and its batch spooled, so nothing stays in memory for longer than
// FlushInterval and twice WriteTimeout, however long the database is away.
type Writer struct {
	store   *Store
	config  WriterConfig
	log     *slog.Logger
	spool   *spool
	metrics *writerMetrics

	queue   chan record   // full: the row is dropped and counted
	batches chan []record // full: the batch is spooled
	wake    chan struct{} // the spool has something

	intake sync.RWMutex // held for writing once, to end the intake
	closed bool

	rate     atomic.Uint64 // float64 bits: bytes a second that arrive, smoothed
	up       atomic.Bool
	drops    dropLog
	progress progress

	writtenDecisions, writtenOutcomes, droppedRows atomic.Int64
}

// NewWriter opens the spool and whatever an earlier process left in it. The
// database need not be reachable; a store opened with Lazy will do. Start it
// with Run. Its errors name the configuration key store.spool_dir.
func NewWriter(store *Store, config WriterConfig) (*Writer, error) {
	if config.SpoolDir == "" {
		return nil, errors.New("store.spool_dir is empty: name a directory for rows that wait for the database")
	}
	config.setDefaults()
	spool, err := openSpool(config.SpoolDir, config.SpoolBytes, config.SharedSpool)
	if err != nil {
		return nil, fmt.Errorf("store.spool_dir: %w", err)
	}
	w := &Writer{
		store: store, config: config, log: config.Logger, spool: spool,
		queue:   make(chan record, config.QueueSize),
		batches: make(chan []record, 1),
		wake:    make(chan struct{}, 1),
	}
	w.drops.log = w.log
	if w.metrics, err = newWriterMetrics(config.Registerer, w); err != nil {
		spool.close()
		return nil, fmt.Errorf("register the metrics of the writer: %w", err)
	}
	w.setUp(true)
	w.drop(dropSpoolFull, spool.trimmed, nil)
	if bytes, rows := spool.held(); rows > 0 {
		w.progress.begin(int64(rows))
		w.log.Info("rows of an earlier run wait in the spool", "rows", rows, "bytes", bytes)
	}
	return w, nil
}

// RecordDecision hands over d, slices included: the caller no longer changes
// them. It never blocks.
func (w *Writer) RecordDecision(d feature.Decision) { w.record(record{decision: &d}) }

// RecordOutcome hands over o. It never blocks.
func (w *Writer) RecordOutcome(o feature.Outcome) { w.record(record{outcome: &o}) }

func (w *Writer) record(r record) {
	w.intake.RLock()
	defer w.intake.RUnlock()
	if w.closed {
		w.drop(dropClosed, 1, nil)
		return
	}
	w.progress.begin(1)
	select {
	case w.queue <- r:
	default:
		w.drop(dropQueueFull, 1, nil)
		w.progress.end(1)
	}
}

// Run writes until ctx ends, and then what is left: to the database for at
// most StopTimeout, else to the spool. It is called once. It returns nil.
func (w *Writer) Run(ctx context.Context) error {
	// Writes go on for a while after ctx ends.
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(w.config.StopTimeout, stop) })()
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		w.collect(ctx)
	}()
	w.flush(ctx, writing)
	<-collected
	w.spool.close()
	w.drops.end(time.Now())
	return nil
}

// collect makes batches of the queue. It never waits for the database.
func (w *Writer) collect(ctx context.Context) {
	defer close(w.batches)
	tick := time.NewTicker(w.config.FlushInterval)
	defer tick.Stop()
	var batch []record
	var arrived int
	last := time.Now()
	add := func(r record) {
		arrived += frameHeader + r.size()
		if batch = append(batch, r); len(batch) >= w.config.BatchSize {
			w.pass(batch)
			batch = nil
		}
	}
	for {
		select {
		case r := <-w.queue:
			add(r)
		case now := <-tick.C:
			if len(batch) > 0 {
				w.pass(batch)
				batch = nil
			}
			w.observeRate(arrived, now.Sub(last))
			arrived, last = 0, now
			w.drops.tick(now)
		case <-ctx.Done():
			w.intake.Lock()
			w.closed = true
			w.intake.Unlock()
			for {
				select {
				case r := <-w.queue:
					add(r)
					continue
				default:
				}
				break
			}
			if len(batch) > 0 {
				w.pass(batch)
			}
			w.observeRate(arrived, time.Since(last))
			return
		}
	}
}

// pass hands a batch to the database, or to the spool when that is busy or
// has older rows.
func (w *Writer) pass(batch []record) {
	if _, waiting := w.spool.held(); waiting == 0 {
		select {
		case w.batches <- batch:
			return
		default:
		}
	}
	w.keep(batch)
}

// keep spools a batch.
func (w *Writer) keep(batch []record) {
	kept, dropped, err := w.spool.append(batch)
	w.metrics.spooled.Add(float64(kept))
	if dropped > 0 {
		w.drop(dropSpoolFull, dropped, nil)
		w.progress.end(int64(dropped))
	}
	if lost := len(batch) - kept; lost > 0 {
		w.drop(dropSpoolFailed, lost, err)
		w.progress.end(int64(lost))
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// adoptEvery is how often a writer looks for what others left in a shared spool.
const adoptEvery = time.Second

// adopt takes over what ended writers left in a spool that is or was shared.
func (w *Writer) adopt() {
	came, dropped, err := w.spool.adopt()
	if came > 0 {
		w.progress.begin(int64(came))
		w.log.Info("rows that another process left wait in the spool", "rows", came)
	}
	if dropped > 0 {
		w.drop(dropSpoolFull, dropped, nil)
		w.progress.end(int64(dropped))
	}
	if err != nil {
		w.log.Error("what another process left in the spool can't be taken over, trying again", "error", err)
	}
}

// flush brings batches and the spool to the database until batches ends.
func (w *Writer) flush(ctx, writing context.Context) {
	var adopt <-chan time.Time // nil: never again
	if w.config.SharedSpool {
		tick := time.NewTicker(adoptEvery)
		defer tick.Stop()
		adopt = tick.C
	}
	w.adopt()
	for {
		w.replay(ctx, writing)
		select {
		case batch, ok := <-w.batches:
			if !ok {
				w.replay(ctx, writing) // once more, if the database is there
				return
			}
			if err := w.write(writing, batch); err != nil {
				w.keep(batch)
				continue
			}
			w.progress.end(int64(len(batch)))
		case <-w.wake:
		case <-adopt:
			w.adopt()
		}
	}
}

// Waits between attempts to reach a database that is away.
const (
	retryFirst = 100 * time.Millisecond
	retryMax   = 3 * time.Second
)

// replay writes the spool to the database until it is empty. It waits for a
// database that is away, but not once ctx has ended. Meanwhile it spools the
// batches that collect still handed over, which are newer than what it writes
// and would else wait in memory.
func (w *Writer) replay(ctx, writing context.Context) {
	wait := retryFirst
	for writing.Err() == nil {
		r, err := w.spool.oldest(w.config.BatchSize)
		if r.segment == nil && err == nil {
			return
		}
		w.spoolWaiting()
		switch {
		case errors.Is(err, fs.ErrNotExist): // someone deleted it
			lost := w.spool.abandon()
			w.drop(dropDamaged, lost, err)
			w.progress.end(int64(lost))
			continue
		case err != nil:
			w.log.Error("the spool cannot be read, trying again", "error", err)
		default:
			err = w.write(writing, r.records)
		}
		if err != nil {
			w.spoolWaiting()
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			wait = min(2*wait, retryMax)
			continue
		}
		wait = retryFirst
		lost, ok := w.spool.done(r)
		if !ok {
			continue // dropped meanwhile, with its rows counted
		}
		if lost += r.damaged; lost > 0 {
			w.drop(dropDamaged, lost, nil)
		}
		w.progress.end(int64(len(r.records) + lost))
	}
}

// spoolWaiting spools the batch that waits for the database, if there is one.
// While the spool holds something collect hands over at most one more: that
// for which it had looked before.
func (w *Writer) spoolWaiting() {
	select {
	case batch, ok := <-w.batches:
		if ok {
			w.keep(batch)
		}
	default:
	}
}

// write stores records in one transaction. When the database refuses the
// batch for what is in it, it finds the rows it refuses and drops those: one
// bad row does not keep the others out. An error means the database is away.
func (w *Writer) write(ctx context.Context, records []record) error {
	if len(records) == 0 {
		return nil
	}
	err := w.transact(ctx, records)
	if err == nil || !refusesRow(err) {
		return err
	}
	if len(records) == 1 {
		w.drop(dropRefused, 1, err)
		return nil
	}
	half := len(records) / 2
	if err := w.write(ctx, records[:half]); err != nil {
		return err
	}
	return w.write(ctx, records[half:])
}

func (w *Writer) transact(ctx context.Context, records []record) error {
	var decisions []feature.Decision
	var outcomes []feature.Outcome
	for _, r := range records {
		if r.decision != nil {
			decisions = append(decisions, *r.decision)
		} else {
			outcomes = append(outcomes, *r.outcome)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, w.config.WriteTimeout)
	defer cancel()
	began := time.Now()
	err := w.store.write(ctx, decisions, outcomes)
	w.metrics.seconds.Observe(time.Since(began).Seconds())
	if err != nil {
		if !refusesRow(err) && w.setUp(false) {
			w.log.Error("the database takes no rows, they go to the spool",
				"error", oneLine(err), "spool", w.config.SpoolDir, "minutes_left", w.minutesLeft())
		}
		return err
	}
	if w.setUp(true) {
		bytes, rows := w.spool.held()
		w.log.Info("the database takes rows again", "spooled_rows", rows, "spooled_bytes", bytes)
	}
	w.metrics.written.WithLabelValues("decisions").Add(float64(len(decisions)))
	w.metrics.written.WithLabelValues("outcomes").Add(float64(len(outcomes)))
	w.writtenDecisions.Add(int64(len(decisions)))
	w.writtenOutcomes.Add(int64(len(outcomes)))
	return nil
}

// refusesRow reports whether err is about the rows rather than the database:
// SQLSTATE class 22 (data), 23 (constraint) or 54 (limit).
func refusesRow(err error) bool {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || len(refused.Code) < 2 {
		return false
	}
	switch refused.Code[:2] {
	case "22", "23", "54":
		return true
	}
	return false
}

// setUp keeps whether the database takes rows and reports a change.
func (w *Writer) setUp(up bool) (changed bool) {
	if up {
		w.metrics.up.Set(1)
	} else {
		w.metrics.up.Set(0)
	}
	return w.up.Swap(up) != up
}

func (w *Writer) drop(reason dropReason, rows int, err error) {
	if rows == 0 {
		return
	}
	w.metrics.dropped.WithLabelValues(string(reason)).Add(float64(rows))
	w.droppedRows.Add(int64(rows))
	w.drops.lost(time.Now(), reason, rows, err)
}

// observeRate smooths the rate of arrival over about ten seconds.
func (w *Writer) observeRate(bytes int, took time.Duration) {
	if took <= 0 {
		return
	}
	now := float64(bytes) / took.Seconds()
	old := math.Float64frombits(w.rate.Load())
	weight := 1 - math.Exp(-took.Seconds()/10)
	w.rate.Store(math.Float64bits(old + weight*(now-old)))
}

// minutesLeft is how long the free part of the spool lasts at the present
// rate; +Inf when nothing arrives.
func (w *Writer) minutesLeft() float64 {
	bytes, _ := w.spool.held()
	rate := math.Float64frombits(w.rate.Load())
	if rate < 1e-3 {
		return math.Inf(1)
	}
	return float64(max(w.config.SpoolBytes-bytes, 0)) / rate / 60
}

// WriterStats is a Writer at one moment.
type WriterStats struct {
	DatabaseUp       bool    // the last write succeeded
	Queued           int     // rows in memory
	SpooledRows      int     // rows on disk
	SpooledBytes     int64   // bytes on disk
	SpoolMinutesLeft float64 // at the present rate; +Inf when nothing arrives
	DecisionsWritten int64   // taken by the database; written twice counts twice
	OutcomesWritten  int64
	Dropped          int64 // rows lost, for any reason
}

// Stats returns the present numbers.
func (w *Writer) Stats() WriterStats {
	bytes, rows := w.spool.held()
	return WriterStats{
		DatabaseUp: w.up.Load(), Queued: len(w.queue), SpooledRows: rows, SpooledBytes: bytes,
		SpoolMinutesLeft: w.minutesLeft(),
		DecisionsWritten: w.writtenDecisions.Load(), OutcomesWritten: w.writtenOutcomes.Load(),
		Dropped: w.droppedRows.Load(),
	}
}

// Drain waits until every row recorded so far, and whatever the spool held,
// is in the database or was dropped. Run must be running.
func (w *Writer) Drain(ctx context.Context) error {
	if err := w.progress.wait(ctx); err != nil {
		return fmt.Errorf("wait for rows to be written: %w", err)
	}
	return nil
}
