package front

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/spillway-llm/spillway/internal/feature"
)

// Counters count what a front door heard of answers.
type Counters struct {
	usage  *prometheus.CounterVec
	unread *prometheus.CounterVec
}

// NewCounters registers the counters of a front door, whose names begin with
// prefix and end in answers_total and events_unread_total. It panics when they
// are registered already.
func NewCounters(reg prometheus.Registerer, prefix string) *Counters {
	with := promauto.With(reg)
	c := &Counters{
		usage: with.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "answers_total",
			Help: "Complete answers of the APIs that are understood, by whether the engine reported usage.",
		}, []string{"usage"}),
		unread: with.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "events_unread_total",
			Help: "Events of answers that the meter could not read, by reason.",
		}, []string{"reason"}),
	}
	for _, reported := range []string{"reported", "absent"} {
		c.usage.WithLabelValues(reported)
	}
	for _, why := range []string{"malformed", "too_long"} {
		c.unread.WithLabelValues(why)
	}
	return c
}

// Heard counts an answer that ended so: what could not be read of it, and, when
// it was complete and metered, whether it told its usage.
func (c *Counters) Heard(a *Answer, how feature.Status) {
	if n := a.Malformed(); n > 0 {
		c.unread.WithLabelValues("malformed").Add(float64(n))
	}
	if n := a.Skipped(); n > 0 {
		c.unread.WithLabelValues("too_long").Add(float64(n))
	}
	if how != feature.OK || !a.Metered() {
		return
	}
	usage := "absent"
	if a.Usage() {
		usage = "reported"
	}
	c.usage.WithLabelValues(usage).Inc()
}
