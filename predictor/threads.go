package predictor

import (
	"context"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// FollowLoad lets this process run Go code on one thread while that is enough,
// and on as many as it had while it is not or a bundle is loaded, until ctx
// ends. Call it where a predictor has a process of its own: it changes
// GOMAXPROCS.
//
// A call that comes alone passes through four goroutines. With more threads
// than work each of them wakes another thread, which looks for work and goes
// back to sleep; on 2 cores and at 1,000 calls a second that costs about as
// much CPU time as reading and writing the socket.
func (s *Server) FollowLoad(ctx context.Context) {
	most := runtime.GOMAXPROCS(0)
	if most == 1 {
		return
	}
	t := &threads{most: most, now: 1, at: time.Now(), used: processTime(), set: func(n int) { runtime.GOMAXPROCS(n) }}
	t.set(t.now)
	s.threads.Store(t)
	defer func() {
		s.threads.Store(nil)
		t.hurry()
	}()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			t.look(time.Now(), processTime())
		}
	}
}

const (
	lookEvery  = 100 * time.Millisecond
	busyAbove  = 0.6              // of one core: where a second thread begins to save waiting
	quietBelow = 0.4              // of one core: far enough below, so that it does not flutter
	quietFor   = 10 * time.Second // until one thread is enough again
)

// threads decides on how many threads to run.
type threads struct {
	most int
	set  func(n int)

	mu         sync.Mutex
	now        int
	at         time.Time     // of the last look
	used       time.Duration // CPU time of the process then
	quietSince time.Time     // zero while it is not quiet
}

// look takes the CPU time that the process has used by now.
func (t *threads) look(at time.Time, used time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	passed := at.Sub(t.at)
	if passed <= 0 {
		return
	}
	share := float64(used-t.used) / float64(passed)
	t.at, t.used = at, used
	switch {
	case share > busyAbove:
		t.run(t.most)
	case share > quietBelow:
		t.quietSince = time.Time{}
	case t.quietSince.IsZero():
		t.quietSince = at
	case at.Sub(t.quietSince) >= quietFor:
		t.run(1)
	}
}

// hurry says that much is about to be done. One thread would do it in slices
// of 10 ms, and every call would wait for the end of one.
func (t *threads) hurry() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.run(t.most)
}

// run changes the number of threads, which then stays for quietFor at least.
func (t *threads) run(n int) {
	t.quietSince = time.Time{}
	if n != t.now {
		t.now = n
		t.set(n)
	}
}

// processTime is the CPU time that this process has used.
func processTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0 // it has no way to fail
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
