package extproc

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// errSilent is the cause of a stream's cancellation for want of messages.
var errSilent = errors.New("nothing came for too long")

// watch ends streams from outside their own goroutines: those that are silent
// for too long, and all when the router stops.
type watch struct {
	mu      sync.Mutex
	streams map[*watched]struct{}
	cause   error // of the end of all, also of those that come later
}

// watched is one open stream.
type watched struct {
	cancel   context.CancelCauseFunc
	seen     atomic.Int64 // when it was heard of last, in Unix nanoseconds
	patience atomic.Int64 // for how long it may be silent, in nanoseconds
}

// heard says that something came at now, and how long it may be silent from
// then on.
func (w *watched) heard(now time.Time, patience time.Duration) {
	w.seen.Store(now.UnixNano())
	w.patience.Store(int64(patience))
}

// enter adds a stream and returns how many are open.
func (w *watch) enter(s *watched) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams[s] = struct{}{}
	if w.cause != nil {
		s.cancel(w.cause)
	}
	return len(w.streams)
}

func (w *watch) leave(s *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.streams, s)
}

// sweep ends what has been silent for too long at now.
func (w *watch) sweep(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.streams {
		if now.UnixNano()-s.seen.Load() > s.patience.Load() {
			s.cancel(errSilent)
		}
	}
}

// end ends all streams.
func (w *watch) end(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cause = cause
	for s := range w.streams {
		s.cancel(cause)
	}
}

// run sweeps until ctx ends.
func (w *watch) run(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			w.sweep(now)
		}
	}
}
