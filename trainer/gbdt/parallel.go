package gbdt

import (
	"sync"
	"sync/atomic"
)

// parallel calls do(worker, i) once for every i in [0, n), on at most threads
// goroutines, and returns when all calls have. Calls of one worker do not
// overlap. What do writes must not depend on the order of calls.
func parallel(threads, n int, do func(worker, i int)) {
	threads = min(threads, n)
	if threads <= 1 {
		for i := range n {
			do(0, i)
		}
		return
	}
	var next atomic.Int64
	work := func(worker int) {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			do(worker, i)
		}
	}
	var wg sync.WaitGroup
	for worker := 1; worker < threads; worker++ {
		wg.Go(func() { work(worker) })
	}
	work(0)
	wg.Wait()
}
