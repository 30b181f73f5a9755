package featurestore_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/featurestore"
	"github.com/spillway-llm/spillway/featurestore/featurestoretest"
	"github.com/spillway-llm/spillway/featurestore/pglocal"
	"github.com/spillway-llm/spillway/internal/feature"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// nowhere is a database that never answers.
const nowhere = "postgres://nobody@127.0.0.1:1/nowhere"

func open(t *testing.T, url string) *featurestore.Store {
	t.Helper()
	s, err := featurestore.Open(t.Context(), url, featurestore.Options{Lazy: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// running starts a writer and returns what stops it and waits for its end.
func running(t *testing.T, s *featurestore.Store, config featurestore.WriterConfig) (*featurestore.Writer, func()) {
	t.Helper()
	w, err := featurestore.NewWriter(s, config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return w, stop
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// source makes decisions with their outcomes and remembers them.
type source struct {
	rng *rand.Rand
	ids map[feature.ID]bool
}

func newSource() *source {
	return &source{rng: rand.New(rand.NewPCG(3, 4)), ids: map[feature.ID]bool{}}
}

func (s *source) record(w *featurestore.Writer, n int) {
	for range n {
		d := featurestoretest.Decision(s.rng, noon.Add(time.Duration(len(s.ids))*time.Millisecond), "qwen", 3)
		s.ids[d.ID] = true
		w.RecordOutcome(featurestoretest.Outcome(s.rng, d))
		w.RecordDecision(d)
	}
}

// stored checks that the tables hold what the source made, each once.
func (s *source) stored(t *testing.T, store *featurestore.Store) {
	t.Helper()
	from, to := noon.Add(-time.Hour), noon.Add(time.Hour)
	counts, err := store.Count(t.Context(), from, to)
	if err != nil {
		t.Fatal(err)
	}
	n := int64(len(s.ids))
	if diff := cmp.Diff(featurestore.Counts{Decisions: n, Outcomes: n, Joined: n}, counts); diff != "" {
		t.Errorf("rows (-recorded +stored):\n%s", diff)
	}
	seen := map[feature.ID]bool{}
	for row, err := range store.Window(t.Context(), "qwen", from, to, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if seen[row.Decision] {
			t.Errorf("%s is there twice", row.Decision)
		}
		seen[row.Decision] = true
	}
	if diff := cmp.Diff(s.ids, seen); diff != "" {
		t.Errorf("ids (-recorded +stored):\n%s", diff)
	}
}

// heard is a logger that lets one wait for a message.
type heard struct {
	mu       sync.Mutex
	messages map[string]chan struct{}
	count    map[string]int
	rows     map[string]int64 // sum of the attribute "rows"
}

func (h *heard) logger() *slog.Logger { return slog.New(h) }

func (h *heard) Enabled(context.Context, slog.Level) bool { return true }
func (h *heard) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *heard) WithGroup(string) slog.Handler            { return h }

func (h *heard) Handle(_ context.Context, r slog.Record) error {
	select {
	case h.channel(r.Message) <- struct{}{}:
	default:
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count[r.Message]++
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "rows" {
			h.rows[r.Message] += a.Value.Int64()
		}
		return true
	})
	return nil
}

func (h *heard) channel(message string) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.messages == nil {
		h.messages, h.count, h.rows = map[string]chan struct{}{}, map[string]int{}, map[string]int64{}
	}
	if h.messages[message] == nil {
		h.messages[message] = make(chan struct{}, 100)
	}
	return h.messages[message]
}

func (h *heard) wait(t *testing.T, message string) {
	t.Helper()
	select {
	case <-h.channel(message):
	case <-soon(t).Done():
		t.Fatalf("never logged: %s", message)
	}
}

const (
	away = "the database takes no rows, they go to the spool"
	back = "the database takes rows again"
	lost = "rows are lost on their way to the database"
)

func TestWriterWrites(t *testing.T) {
	store := featurestoretest.New(t)
	registry := prometheus.NewRegistry()
	w, stop := running(t, store, featurestore.WriterConfig{SpoolDir: t.TempDir(), Registerer: registry})
	src := newSource()
	src.record(w, 1000)
	if err := w.Drain(soon(t)); err != nil {
		t.Fatal(err)
	}
	src.stored(t, store)
	src.record(w, 100) // written on the way out
	stop()
	src.stored(t, store)
	w.RecordDecision(feature.Decision{}) // too late
	if s := w.Stats(); s.Dropped != 1 || s.DecisionsWritten != 1100 || s.OutcomesWritten != 1100 || !s.DatabaseUp {
		t.Errorf("%+v", s)
	}
	for name, want := range map[string]float64{
		`spillway_store_rows_dropped_total{reason="closed"}`:       1,
		`spillway_store_rows_dropped_total{reason="queue_full"}`:   0,
		`spillway_store_rows_dropped_total{reason="spool_full"}`:   0,
		`spillway_store_rows_dropped_total{reason="spool_failed"}`: 0,
		`spillway_store_rows_dropped_total{reason="damaged"}`:      0,
		`spillway_store_rows_dropped_total{reason="refused"}`:      0,
		`spillway_store_rows_written_total{table="decisions"}`:     1100,
		`spillway_store_rows_written_total{table="outcomes"}`:      1100,
		`spillway_store_database_up{}`:                             1,
		`spillway_store_queue_rows{}`:                              0,
		`spillway_store_spool_bytes{}`:                             0,
	} {
		if got, ok := values(t, registry)[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// values reads counters and gauges by name{label="value"}.
func values(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			name := f.GetName() + "{" + strings.Join(labels, ",") + "}"
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return got
}

// A kill -9 of the server in the middle of a stream loses nothing and stores
// nothing twice.
func TestWriterSurvivesKillOfPostgres(t *testing.T) {
	dir := publicDir(t)
	cluster, err := pglocal.Start(t.Context(), pglocal.Config{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	store := open(t, cluster.URL())
	if err := store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	var log heard
	w, _ := running(t, store, featurestore.WriterConfig{
		SpoolDir: t.TempDir(), BatchSize: 50, FlushInterval: 5 * time.Millisecond, Logger: log.logger()})
	src := newSource()
	for range 2 {
		src.record(w, 500)
		cluster.Kill() // with batches under way
		src.record(w, 500)
		log.wait(t, away)
		src.record(w, 500)
		if err := cluster.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		src.record(w, 500)
		log.wait(t, back)
	}
	if err := w.Drain(soon(t)); err != nil {
		t.Fatal(err)
	}
	src.stored(t, store)
	if s := w.Stats(); s.Dropped != 0 || s.SpooledRows != 0 {
		t.Errorf("%+v", s)
	}
}

// publicDir is a directory that the server's user can enter.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "spillway-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A writer that starts and ends without the database leaves its rows to the
// next one, which also meets the torn end of a killed process.
func TestWriterRestartReplays(t *testing.T) {
	spool := t.TempDir()
	src := newSource()
	w, stop := running(t, open(t, nowhere), featurestore.WriterConfig{SpoolDir: spool, BatchSize: 100})
	src.record(w, 700)
	stop()
	if s := w.Stats(); s.SpooledRows != 1400 || s.Dropped != 0 || s.DatabaseUp || s.SpooledBytes == 0 {
		t.Errorf("%+v", s)
	}
	segments, err := filepath.Glob(filepath.Join(spool, "*.spool"))
	if err != nil || len(segments) == 0 {
		t.Fatal(segments, err)
	}
	f, err := os.OpenFile(segments[len(segments)-1], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte{200, 0, 0, 0, 1, 2, 3, 4, 5, 6}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	store := featurestoretest.New(t)
	w, _ = running(t, store, featurestore.WriterConfig{SpoolDir: spool})
	src.record(w, 50)
	if err := w.Drain(soon(t)); err != nil {
		t.Fatal(err)
	}
	src.stored(t, store)
	if left, _ := filepath.Glob(filepath.Join(spool, "*.spool")); len(left) != 0 {
		t.Errorf("segments left behind: %v", left)
	}
}

// A full spool keeps the newest rows and tells of the others: at once, and at
// the end how many more there were.
func TestWriterFullSpoolDropsOldest(t *testing.T) {
	var log heard
	spool := t.TempDir()
	const limit = 200_000
	w, stop := running(t, open(t, nowhere), featurestore.WriterConfig{
		SpoolDir: spool, SpoolBytes: limit, BatchSize: 20, Logger: log.logger()})
	src := newSource()
	src.record(w, 2000)
	log.wait(t, lost)
	stop()
	s := w.Stats()
	if s.Dropped == 0 || s.SpooledBytes > limit || s.SpooledRows+int(s.Dropped) != 4000 {
		t.Errorf("%+v, want 4000 rows kept or dropped in %d bytes", s, limit)
	}
	if s.SpoolMinutesLeft > 1 {
		t.Errorf("%v minutes left of a full spool", s.SpoolMinutesLeft)
	}
	if n := log.count[lost]; n > 2 {
		t.Errorf("told %d times, want at most twice", n)
	}
	if log.rows[lost] != s.Dropped {
		t.Errorf("told of %d lost rows, want %d", log.rows[lost], s.Dropped)
	}

	// What is kept is the newest: the last row made is among it.
	store := featurestoretest.New(t)
	w, _ = running(t, store, featurestore.WriterConfig{SpoolDir: spool, SpoolBytes: limit})
	if err := w.Drain(soon(t)); err != nil {
		t.Fatal(err)
	}
	counts, err := store.Count(t.Context(), noon, noon.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if int(counts.Decisions+counts.Outcomes) != s.SpooledRows {
		t.Errorf("%+v, want %d rows", counts, s.SpooledRows)
	}
	newest, err := store.Count(t.Context(), noon.Add(1999*time.Millisecond), noon.Add(2*time.Second))
	if err != nil || newest.Decisions != 1 {
		t.Errorf("newest row: %+v %v", newest, err)
	}
}

// A spool that is opened with a lower limit loses its oldest rows, and says so.
func TestWriterTrimsAtTheStart(t *testing.T) {
	spool := t.TempDir()
	w, stop := running(t, open(t, nowhere), featurestore.WriterConfig{SpoolDir: spool, SpoolBytes: 1 << 20, BatchSize: 20})
	newSource().record(w, 500)
	stop()
	before := w.Stats()
	var log heard
	registry := prometheus.NewRegistry()
	w, err := featurestore.NewWriter(open(t, nowhere), featurestore.WriterConfig{
		SpoolDir: spool, SpoolBytes: 1 << 18, Logger: log.logger(), Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	after := w.Stats()
	if before.SpooledRows != 1000 || after.Dropped == 0 || after.SpooledRows+int(after.Dropped) != 1000 || log.rows[lost] != after.Dropped {
		t.Errorf("before %+v, after %+v, told of %d lost rows", before, after, log.rows[lost])
	}
	if got := values(t, registry)[`spillway_store_rows_dropped_total{reason="spool_full"}`]; got != float64(after.Dropped) {
		t.Errorf("counted %v, want %d", got, after.Dropped)
	}
}

// Without Run nobody empties the queue: recording still returns.
func TestWriterNeverBlocks(t *testing.T) {
	w, err := featurestore.NewWriter(open(t, nowhere), featurestore.WriterConfig{SpoolDir: t.TempDir(), QueueSize: 10})
	if err != nil {
		t.Fatal(err)
	}
	newSource().record(w, 20)
	if s := w.Stats(); s.Queued != 10 || s.Dropped != 30 {
		t.Errorf("%+v, want 10 queued and 30 dropped", s)
	}
	if s := w.Stats(); !math.IsInf(s.SpoolMinutesLeft, 1) {
		t.Errorf("%v minutes left when nothing is known to arrive, want +Inf", s.SpoolMinutesLeft)
	}
}

// One row the database refuses does not keep the others out.
func TestWriterRefusedRow(t *testing.T) {
	store := featurestoretest.New(t)
	w, _ := running(t, store, featurestore.WriterConfig{SpoolDir: t.TempDir()})
	src := newSource()
	src.record(w, 30)
	bad := featurestoretest.Decision(src.rng, noon, "qwen", 1)
	bad.DecidedAt = time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC) // beyond what a timestamptz holds
	w.RecordDecision(bad)
	src.record(w, 30)
	if err := w.Drain(soon(t)); err != nil {
		t.Fatal(err)
	}
	src.stored(t, store)
	if s := w.Stats(); s.Dropped != 1 || !s.DatabaseUp {
		t.Errorf("%+v, want 1 dropped and the database up", s)
	}
}

func TestNewWriterErrors(t *testing.T) {
	if _, err := featurestore.NewWriter(open(t, nowhere), featurestore.WriterConfig{}); err == nil || !strings.Contains(err.Error(), "store.spool_dir") {
		t.Errorf("no spool directory: %v", err)
	}
	dir := t.TempDir()
	if _, err := featurestore.NewWriter(open(t, nowhere), featurestore.WriterConfig{SpoolDir: dir}); err != nil {
		t.Fatal(err)
	}
	_, err := featurestore.NewWriter(open(t, nowhere), featurestore.WriterConfig{SpoolDir: dir})
	if err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("a directory in use: %v", err)
	}
	if got := fmt.Sprint(err); strings.Contains(got, "\n") {
		t.Errorf("not one line: %q", got)
	}
}

// Recording is on the way of every request: it costs the row's own place and
// nothing that grows with the candidates.
func TestRecordAllocates(t *testing.T) {
	w, err := featurestore.NewWriter(open(t, nowhere), featurestore.WriterConfig{SpoolDir: t.TempDir(), QueueSize: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	src := newSource()
	d := featurestoretest.Decision(src.rng, noon, "qwen", 200)
	o := featurestoretest.Outcome(src.rng, d)
	if n := testing.AllocsPerRun(1000, func() { w.RecordDecision(d); w.RecordOutcome(o) }); n > 2 {
		t.Errorf("%v allocations for a decision and an outcome, want at most 2", n)
	}
}
