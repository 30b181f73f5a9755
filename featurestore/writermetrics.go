package featurestore

import (
	"github.com/prometheus/client_golang/prometheus"
)

// dropReason says why a row was lost.
type dropReason string

const (
	dropQueueFull   dropReason = "queue_full"   // arrived faster than the disk takes them
	dropSpoolFull   dropReason = "spool_full"   // the oldest, to make room for newer ones
	dropSpoolFailed dropReason = "spool_failed" // the disk refused it
	dropDamaged     dropReason = "damaged"      // could not be read back from the spool
	dropRefused     dropReason = "refused"      // the database takes the others but not this one
	dropClosed      dropReason = "closed"       // recorded after the writer had ended
)

var dropReasons = []dropReason{dropQueueFull, dropSpoolFull, dropSpoolFailed, dropDamaged, dropRefused, dropClosed}

// writerMetrics are the spillway_store_* metrics of one writer.
type writerMetrics struct {
	written *prometheus.CounterVec
	dropped *prometheus.CounterVec
	spooled prometheus.Counter
	up      prometheus.Gauge
	seconds prometheus.Histogram
}

func newWriterMetrics(r prometheus.Registerer, w *Writer) (*writerMetrics, error) {
	m := &writerMetrics{
		written: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_store_rows_written_total",
			Help: "Rows the database took, by table; a row written again after a failure counts again."}, []string{"table"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_store_rows_dropped_total",
			Help: "Rows lost, by reason: queue_full, spool_full, spool_failed, damaged, refused, closed."}, []string{"reason"}),
		spooled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spillway_store_rows_spooled_total",
			Help: "Rows written to the spool on disk because the database was away or too slow."}),
		up: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "spillway_store_database_up",
			Help: "1 when the last write to the database succeeded, else 0."}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "spillway_store_write_seconds",
			Help:    "Time of one batch's transaction, failed ones included.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 11)}),
	}
	for _, table := range partitioned {
		m.written.WithLabelValues(table)
	}
	for _, reason := range dropReasons {
		m.dropped.WithLabelValues(string(reason))
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.written, m.dropped, m.spooled, m.up, m.seconds,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "spillway_store_queue_rows",
			Help: "Rows in memory, waiting to be written."}, func() float64 { return float64(len(w.queue)) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "spillway_store_spool_bytes",
			Help: "Bytes in the spool on disk."}, func() float64 { b, _ := w.spool.held(); return float64(b) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "spillway_store_spool_minutes_left",
			Help: "How long the rest of the spool would last without the database at the present rate; +Inf when nothing arrives."},
			w.minutesLeft),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "spillway_store_lost_total",
			Help: "Decisions whose outcome never came, as sweeps of this process recorded; a late outcome does not take back its count."},
			func() float64 { return float64(w.store.swept.lost.Load()) }),
	} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
