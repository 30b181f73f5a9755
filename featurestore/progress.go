package featurestore

import (
	"context"
	"sync"
)

// progress counts rows that are under way and lets one wait for none.
type progress struct {
	mu      sync.Mutex
	pending int64
	idle    chan struct{} // closed when pending comes to 0; nil when nobody waits
}

func (p *progress) begin(n int64) {
	p.mu.Lock()
	p.pending += n
	p.mu.Unlock()
}

func (p *progress) end(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending -= n; p.pending <= 0 && p.idle != nil {
		close(p.idle)
		p.idle = nil
	}
}

func (p *progress) wait(ctx context.Context) error {
	p.mu.Lock()
	if p.pending <= 0 {
		p.mu.Unlock()
		return nil
	}
	if p.idle == nil {
		p.idle = make(chan struct{})
	}
	idle := p.idle
	p.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
