package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/spillway-llm/spillway/internal/fleet"
)

// loop drives one engine by the wall clock. One goroutine owns the engine;
// everybody else asks it through do.
type loop struct {
	engine   *fleet.Engine
	meters   *meters
	origin   time.Time     // when the engine's time was 0, moved forward by hangs
	hung     bool          // the engine's time stands still
	frozen   time.Duration // at this value
	streams  map[uint64]*stream
	woken    []*stream // scratch of deliver
	nextID   uint64
	commands chan func() // a full channel holds handlers back, never the loop
	stopped  chan struct{}
}

// stream carries the progress of one request from the loop to its handler.
type stream struct {
	id       uint64
	ready    chan struct{} // holds one wake-up
	tokens   atomic.Int64  // generated so far
	cached   atomic.Int64  // prompt tokens found in the prefix cache; valid once tokens > 0
	finished atomic.Bool   // tokens is final

	arrived, latest time.Duration // of the request and of its newest token; the loop's own
	capped          bool          // ends by its limit, not by itself
}

func (s *stream) wake() {
	select {
	case s.ready <- struct{}{}:
	default: // already woken
	}
}

func newLoop(engine *fleet.Engine, m *meters, origin time.Time) *loop {
	return &loop{
		engine:   engine,
		meters:   m,
		origin:   origin,
		streams:  make(map[uint64]*stream),
		commands: make(chan func(), 64),
		stopped:  make(chan struct{}),
	}
}

func (l *loop) now() time.Duration {
	if l.hung {
		return l.frozen
	}
	return time.Since(l.origin)
}

func (l *loop) run(ctx context.Context) {
	defer close(l.stopped)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		l.deliver(l.engine.Advance(l.now()))
		if next, ok := l.engine.NextEvent(); ok && !l.hung {
			timer.Reset(next - l.now())
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return
		case command := <-l.commands:
			command()
		case <-timer.C:
		}
	}
}

// deliver puts everything that happened into the metrics and the streams and
// only then wakes the handlers: a client that has its answer finds it in the
// metrics, and its last token comes together with the end.
func (l *loop) deliver(events []fleet.Event) {
	l.meters.publish(l.engine.Metrics())
	l.woken = l.woken[:0]
	for _, ev := range events {
		s := l.streams[ev.Request.ID]
		switch {
		case ev.Kind == fleet.Finished:
			s.finished.Store(true)
			delete(l.streams, s.id)
			l.meters.finished(ev.At-s.arrived, s.capped)
			continue
		case ev.Generated == 1:
			s.cached.Store(int64(ev.Cached))
			l.meters.firstToken(ev.At - s.arrived)
		default:
			l.meters.nextToken(ev.At - s.latest)
		}
		s.latest = ev.At
		s.tokens.Store(int64(ev.Generated))
		l.woken = append(l.woken, s)
	}
	for _, s := range l.woken {
		s.wake()
	}
	clear(l.woken)
}

// do runs f on the loop's goroutine and reports whether it did before the loop
// stopped.
func (l *loop) do(f func()) bool {
	done := make(chan struct{})
	select {
	case l.commands <- func() { f(); close(done) }:
	case <-l.stopped:
		return false
	}
	select {
	case <-done:
		return true
	case <-l.stopped:
		return false
	}
}

// submit gives the engine a request made by build, which is told its id.
func (l *loop) submit(capped bool, build func(id uint64) *fleet.Request) (*stream, error) {
	s := &stream{ready: make(chan struct{}, 1), capped: capped}
	errs := make(chan error, 1)
	ran := l.do(func() {
		l.nextID++
		s.id, s.arrived = l.nextID, l.now()
		err := l.engine.Submit(s.arrived, build(s.id))
		if err == nil {
			l.streams[s.id] = s
		}
		errs <- err
	})
	if !ran {
		return nil, context.Canceled
	}
	return s, <-errs
}

// cancel ends a request whose handler goes away.
func (l *loop) cancel(s *stream) {
	l.do(func() {
		if l.engine.Cancel(s.id) {
			delete(l.streams, s.id)
			l.meters.aborted()
		}
	})
}

// apply makes the engine behave as f says and lets every handler look at it.
// It must run on the loop's goroutine, or before it starts.
func (l *loop) apply(f Fault) {
	factor := 1.0
	if f.Kind == Slow {
		factor = f.Factor
	}
	if err := l.engine.SetSlowFactor(factor); err != nil {
		panic(err) // Fault.check lets no other factor through
	}
	switch hang := f.Kind == Hang; {
	case hang && !l.hung:
		l.frozen = l.now()
		l.hung = true
	case !hang && l.hung:
		l.origin = time.Now().Add(-l.frozen)
		l.hung = false
	}
	for _, s := range l.streams {
		s.wake()
	}
}
