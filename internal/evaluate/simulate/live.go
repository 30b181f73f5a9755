package simulate

import (
	"slices"
	"sort"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/fleet"
	"github.com/spillway-llm/spillway/router/correction"
)

// mayDecide reports whether forecasts might when a decision was made.
func mayDecide(d *feature.Decision) bool {
	return d.State == string(correction.Live) && d.Mode != "shadow"
}

// anyLive reports whether they might at all.
func (l *log) anyLive() bool {
	return slices.ContainsFunc(l.requests, func(q request) bool { return q.live })
}

// liveAt reports whether they might at a time of the log, in seconds.
func (l *log) liveAt(at float64) bool {
	i := sort.Search(len(l.requests), func(i int) bool { return l.requests[i].at > at })
	return l.requests[max(0, i-1)].live
}

// asLogged forecasts while the log's router was live, and nothing while it was not.
type asLogged struct {
	fleet.Forecaster
	log  *log
	live bool
}

// Forecast leaves out what might not decide.
func (f *asLogged) Forecast(vectors []feature.Vector, out []feature.Forecast) {
	if f.live {
		f.Forecaster.Forecast(vectors, out)
	}
}

// observe takes the time of the log.
func (f *asLogged) observe(at time.Duration) { f.live = f.log.liveAt(at.Seconds()) }

// followed lets a replay of the configured policy be live when the log was.
func (m *Model) followed(c *fleet.WorldConfig) {
	if c.Router.Forecaster == nil || m.log.always {
		return
	}
	f := &asLogged{Forecaster: c.Router.Forecaster, log: m.log, live: m.log.liveAt(0)}
	c.Router.Forecaster = f
	c.Observer = func(s *fleet.Sample) { f.observe(s.At - m.starts) }
}
