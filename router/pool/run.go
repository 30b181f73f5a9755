package pool

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Run scrapes every endpoint and follows the endpoints file and the sources
// until ctx ends.
// It returns nil then; nothing it started is left. Run it once.
func (p *Pool) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	if p.config.File != "" {
		running.Go(func() { p.watch(ctx) })
	}
	for _, o := range p.origins[firstSource:] {
		running.Go(func() { o.source.Run(ctx, func(n News) { p.hear(o, n) }) })
	}
	for {
		p.startScrapes(ctx, &running)
		select {
		case <-ctx.Done():
			return nil
		case <-p.changed:
		}
	}
}

// startScrapes starts a loop for every member that has none.
func (p *Pool) startScrapes(ctx context.Context, running *sync.WaitGroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range sortedKeys(p.members) {
		m := p.members[id]
		if m.cancel != nil {
			continue
		}
		own, cancel := context.WithCancel(ctx)
		m.cancel = cancel
		running.Go(func() {
			defer cancel()
			p.follow(own, m)
		})
	}
}

// follow scrapes one endpoint until ctx ends: at once, then about every
// interval, and more and more rarely while that fails.
func (p *Pool) follow(ctx context.Context, m *member) {
	s := &scraper{pool: p, member: m}
	failures := 0
	for {
		if s.scrape(ctx) {
			failures = 0
		} else {
			failures++
		}
		if ctx.Err() != nil {
			return
		}
		pause := p.config.Interval
		for i := p.config.FailAfter; i < failures && pause < p.config.MaxBackoff; i++ {
			pause *= 2
		}
		pause = min(pause, p.config.MaxBackoff)
		// Jitter, so that a fleet is not scraped in one burst.
		timer := time.NewTimer(time.Duration(float64(pause) * (0.9 + 0.2*rand.Float64())))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}
