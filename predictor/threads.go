package predictor

import (
	"context"
	"runtime"
	"syscall"
	"time"
)

// FollowLoad lets this process run Go code on one thread while that is enough,
// and on as many as it had when it is not, until ctx ends. Call it where a
// predictor has a process of its own: it changes GOMAXPROCS.
//
// A call that comes alone passes through four goroutines. With more threads
// than work each of them wakes another thread, which looks for work and goes
// back to sleep; on 2 cores and at 1,000 calls a second that costs about as
// much CPU time as reading and writing the socket.
func FollowLoad(ctx context.Context) {
	most := runtime.GOMAXPROCS(0)
	if most == 1 {
		return
	}
	defer runtime.GOMAXPROCS(most)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	t := threads{most: most, now: 1, at: time.Now(), used: processTime()}
	runtime.GOMAXPROCS(t.now)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		before := t.now
		if t.look(time.Now(), processTime()); t.now != before {
			runtime.GOMAXPROCS(t.now)
		}
	}
}

const (
	lookEvery  = 100 * time.Millisecond
	busyAbove  = 0.6              // of one core: where a second thread begins to save waiting
	quietBelow = 0.4             // of one core: far enough below, so that it does not flutter
	quietFor   = 10 * time.Second // until one thread is enough again
)

// threads decides on how many threads to run.
type threads struct {
	most, now  int
	at         time.Time     // of the last look
	used       time.Duration // CPU time of the process then
	quietSince time.Time     // zero while it is not quiet
}

// look takes the CPU time that the process has used by now.
func (t *threads) look(at time.Time, used time.Duration) {
	passed := at.Sub(t.at)
	if passed <= 0 {
		return
	}
	share := float64(used-t.used) / float64(passed)
	t.at, t.used = at, used
	switch {
	case share > busyAbove:
		t.now, t.quietSince = t.most, time.Time{}
	case share > quietBelow:
		t.quietSince = time.Time{}
	case t.quietSince.IsZero():
		t.quietSince = at
	case at.Sub(t.quietSince) >= quietFor:
		t.now = 1
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
