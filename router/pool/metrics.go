package pool

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what the pool counts of itself.
type metrics struct {
	duration     prometheus.Histogram
	failures     *prometheus.CounterVec // reason
	missing      *prometheus.CounterVec // signal
	restarts     prometheus.Counter
	fileReads    *prometheus.CounterVec // result
	fileRejected prometheus.Counter

	discoveryFailures *prometheus.CounterVec // source, reason
	discoveryRejected *prometheus.CounterVec // source
}

// newMetrics registers them with r, which may be nil.
func newMetrics(r prometheus.Registerer, p *Pool) (*metrics, error) {
	m := &metrics{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "spillway_router_scrape_duration_seconds",
			Help:    "Time one scrape of one endpoint took, also when it failed.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_scrape_failures_total",
			Help: "Scrapes that gave no metrics page.",
		}, []string{"reason"}),
		missing: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_scrape_missing_total",
			Help: "Numbers routing uses that a metrics page did not give.",
		}, []string{"signal"}),
		restarts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spillway_router_scrape_restarts_total",
			Help: "New incarnations of known endpoints.",
		}),
		fileReads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_endpoints_file_reads_total",
			Help: "Reads of a changed endpoints file.",
		}, []string{"result"}),
		fileRejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "spillway_router_endpoints_file_rejected_total",
			Help: "Entries of the endpoints file that could not be used.",
		}),
		discoveryFailures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_discovery_failures_total",
			Help: "Times a source of endpoints could not be asked; what it said last stood.",
		}, []string{"source", "reason"}),
		discoveryRejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "spillway_router_discovery_rejected_total",
			Help: "Endpoints that a source named and that could not be used, or that another source had.",
		}, []string{"source"}),
	}
	// Every value of a closed label set is there from the start, so that a
	// first alarm is an increase.
	for _, reason := range []string{noConnection, timedOut, badStatus, tooLarge} {
		m.failures.WithLabelValues(reason)
	}
	for _, name := range Read(nil).Missing() {
		m.missing.WithLabelValues(name)
	}
	for _, result := range []string{"ok", "empty", "unreadable"} {
		m.fileReads.WithLabelValues(result)
	}
	for _, o := range p.origins[firstSource:] {
		m.discoveryRejected.WithLabelValues(o.source.String())
		for _, reason := range []string{Forbidden, NotFound, Unreachable, Failed} {
			m.discoveryFailures.WithLabelValues(o.source.String(), reason)
		}
	}
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.duration, m.failures, m.missing, m.restarts, m.fileReads, m.fileRejected, m.discoveryFailures, m.discoveryRejected, census{p},
	} {
		errs = append(errs, r.Register(c))
	}
	return m, errors.Join(errs...)
}

// census counts the endpoints of the snapshot, and how sources stand, when it is
// asked.
type census struct{ pool *Pool }

var (
	endpointsDesc = prometheus.NewDesc("spillway_router_endpoints", "Endpoints in the pool.", []string{"state"}, nil)
	currentDesc   = prometheus.NewDesc("spillway_router_discovery_current", "1 while what a source of endpoints said last is current, 0 while it can't be asked and that stands.", []string{"source"}, nil)
	namedDesc     = prometheus.NewDesc("spillway_router_discovery_endpoints", "Endpoints in the pool that a source named.", []string{"source"}, nil)
)

func (c census) Describe(ch chan<- *prometheus.Desc) {
	ch <- endpointsDesc
	ch <- currentDesc
	ch <- namedDesc
}

func (c census) Collect(ch chan<- prometheus.Metric) {
	var healthy, unhealthy, draining float64
	if s := c.pool.Snapshot(); s != nil {
		for i := range s.Endpoints {
			switch e := &s.Endpoints[i]; {
			case e.Draining:
				draining++
			case e.Healthy:
				healthy++
			default:
				unhealthy++
			}
		}
	}
	for state, n := range map[string]float64{"healthy": healthy, "unhealthy": unhealthy, "draining": draining} {
		ch <- prometheus.MustNewConstMetric(endpointsDesc, prometheus.GaugeValue, n, state)
	}
	for _, s := range c.pool.Sources() {
		current := 0.0
		if s.Error == "" && !s.Heard.IsZero() {
			current = 1
		}
		ch <- prometheus.MustNewConstMetric(currentDesc, prometheus.GaugeValue, current, s.Source)
		ch <- prometheus.MustNewConstMetric(namedDesc, prometheus.GaugeValue, float64(s.Endpoints), s.Source)
	}
}
