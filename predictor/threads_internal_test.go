package predictor

import (
	"testing"
	"time"
)

// What a process is given follows its load: at once upwards, slowly down.
func TestThreads(t *testing.T) {
	start := time.Unix(0, 0)
	var passed, used time.Duration
	running := 1
	th := threads{most: 8, now: 1, at: start, set: func(n int) { running = n }}
	look := func(share float64, times, want int) {
		t.Helper()
		for range times {
			passed += lookEvery
			used += time.Duration(share * float64(lookEvery))
			th.look(start.Add(passed), used)
		}
		if running != want {
			t.Fatalf("%d threads after %v at %v of a core, want %d", running, passed, share, want)
		}
	}
	quiet := int(quietFor / lookEvery)
	look(0, 5, 1)
	look(busyAbove-0.01, 100, 1)
	look(busyAbove+0.01, 1, 8)
	look(6, 100, 8)
	look(quietBelow+0.01, 10*quiet, 8)
	look(quietBelow-0.01, quiet, 8) // not quite: the first look begins the time
	look(quietBelow+0.01, 1, 8)     // and this ends it
	look(quietBelow-0.01, quiet+1, 1)
	th.look(th.at, used+time.Hour) // a clock that stands still tells nothing
	if running != 1 {
		t.Errorf("%d threads for no time at all", running)
	}
	th.hurry()
	if running != 8 {
		t.Errorf("%d threads in a hurry", running)
	}
	look(0, quiet, 8)
	look(0, 1, 1)
}
