package route

import (
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/physics"
	"github.com/spillway-llm/spillway/router/pool"
)

// kind is what decides an endpoint's profile.
type kind struct{ class, profile string }

// profile is what is known of an endpoint's engine: that of its class, else
// the built-in one its configuration names, else the default. Called under mu.
func (r *Router) profile(e *pool.State) *physics.Profile {
	k := kind{e.Class, e.Profile}
	if p, ok := r.profiles[k]; ok {
		return p
	}
	p, ok := r.config.Profiles[e.Class]
	if !ok {
		p = r.config.DefaultProfile
		if e.Profile != "" {
			named, err := physics.Named(e.Profile)
			if err != nil {
				r.log.Warn("using the default profile", "endpoint", e.ID, "error", err)
			} else {
				p = named
			}
		}
	}
	r.profiles[k] = &p
	return &p
}

// profileLoad is the profile's part of a load.
func profileLoad(p *physics.Profile, speed float64) feature.Profile {
	return feature.Profile{
		PeakPrefillThroughput: p.PeakPrefillThroughput,
		MaxBatchedTokens:      float64(p.MaxBatchedTokens),
		MaxNumSeqs:            float64(p.MaxNumSeqs),
		KVCapacityTokens:      float64(p.KVCapacityTokens),
		SpeedFactor:           speed,
	}
}

// load writes everything known of e's load to l, which is too large to pass
// around; what the engine itself reported takes precedence over its profile.
func (e *endpoint) load(r *Router, now time.Time, l *feature.Load) {
	l.Scraped = e.state.Scraped(now)
	l.Ledger = r.ledger.State(e.id, e.incarnation, now, e.state.ScrapedAt)
	l.Profile = profileLoad(e.profile, e.speed.Factor(now))
	if e.state.KVCapacityTokens > 0 {
		l.Profile.KVCapacityTokens = e.state.KVCapacityTokens
	}
	if e.state.MaxNumSeqs > 0 {
		l.Profile.MaxNumSeqs = e.state.MaxNumSeqs
	}
}
