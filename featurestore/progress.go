package featurestore

import (
	"context"
	"log/slog"
	"sync"
	"time"
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

// burst is how long drops must stay away for the next to be told again.
const burst = time.Minute

// dropLog tells of lost rows once a burst, and how many there were when the
// next begins.
type dropLog struct {
	log *slog.Logger

	mu   sync.Mutex
	last map[dropReason]time.Time
	rows map[dropReason]int // since the last told
}

func (l *dropLog) lost(now time.Time, reason dropReason, rows int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last, l.rows = map[dropReason]time.Time{}, map[dropReason]int{}
	}
	l.rows[reason] += rows
	quiet := now.Sub(l.last[reason]) >= burst
	l.last[reason] = now
	if !quiet {
		return
	}
	attrs := []any{"reason", string(reason), "rows", l.rows[reason]}
	if err != nil {
		attrs = append(attrs, "error", oneLine(err))
	}
	l.log.Error("rows are lost on their way to the database", attrs...)
	l.rows[reason] = 0
}
