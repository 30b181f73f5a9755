package route

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/policy"
)

// saturation says, when it is asked, what share of the time of an LLM's
// endpoints the present arrivals take: all that came to them through this router,
// so that routers of one fleet may be added up.
type saturation struct{ router *Router }

var saturationDesc = prometheus.NewDesc("spillway_router_saturation",
	"Share of the time of an LLM's endpoints that the arrivals of the last minute at this router take, by the step model: at 1 they can serve no more. Add up the routers of a fleet. Without an endpoint that may be used there is none.", []string{"llm"}, nil)

func (s saturation) Describe(ch chan<- *prometheus.Desc) { ch <- saturationDesc }

func (s saturation) Collect(ch chan<- prometheus.Metric) {
	for _, x := range s.router.saturations(time.Now()) {
		ch <- prometheus.MustNewConstMetric(saturationDesc, prometheus.GaugeValue, x.share, x.llm)
	}
}

type saturated struct {
	llm   string
	share float64
}

// saturations are those of the LLMs that are kept apart and have an endpoint
// which may be used: the mean over these of what each is occupied with, by any
// LLM.
func (r *Router) saturations(now time.Time) (all []saturated) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sync()
	shares := make([]float64, len(r.present))
	usable := make([]bool, len(r.present))
	for i, e := range r.present {
		shares[i], usable[i] = e.occupancy.Share(now), r.standing(e.state, now) <= policy.Dated
	}
	for _, l := range r.sorted() {
		sum, n := 0.0, 0.0
		for i, e := range r.present {
			if usable[i] && serves(e.state, l.name) {
				sum, n = sum+shares[i], n+1
			}
		}
		if n > 0 {
			all = append(all, saturated{l.name, sum / n})
		}
	}
	return all
}

// occupies is for how long the request of s takes its candidate i from others.
func (s *scratch) occupies(i int) feature.Seconds {
	c, of := &s.input.Candidates[i], &s.input.Request
	return physics.Occupied(c.Coefficients, feature.Request{
		PromptTokens: of.PromptTokens, CachedTokens: c.CachedTokens,
		ExpectedOutputTokens: of.ExpectedOutputTokens, Completions: of.Completions,
	}, c.Load.Profile)
}

// occupyLeast counts a request that is turned away where it would have taken the
// least: that it was is no less of a demand.
func (s *scratch) occupyLeast(now time.Time) {
	best, least := -1, feature.Seconds(0)
	for i := range s.input.Candidates {
		if s.input.Candidates[i].Standing > policy.Dated {
			continue
		}
		if takes := s.occupies(i); best < 0 || takes < least {
			best, least = i, takes
		}
	}
	if best >= 0 {
		s.known[best].occupancy.Add(now, least)
	}
}
