package gbdt

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// crew is goroutines that share out one piece of work after another. Pieces
// come every few microseconds while a tree is grown, faster than a sleeper is
// woken, so whoever has nothing to do looks for more for a moment before going
// to sleep.
type crew struct {
	threads int
	task    atomic.Pointer[task] // the newest
	asleep  []atomic.Bool        // by worker
	wake    []chan struct{}      // likewise
	done    chan struct{}        // for one who sleeps on the end of a task
	ended   sync.WaitGroup
}

// task is do(worker, i) for every i in [0, n). Each worker first takes its own
// share of neighbouring parts, the same for every task of as many parts, so that
// the rows it works on stay in its cache; then it helps the others.
type task struct {
	do      func(worker, i int)
	shares  []share
	left    atomic.Int64 // parts
	awaited atomic.Bool
}

type share struct{ next, end atomic.Int64 }

// hire starts a crew of at most threads workers, the caller being one, and no
// more than can run at once. Its goroutines end with dismiss.
func hire(threads int) *crew {
	threads = min(threads, runtime.GOMAXPROCS(0))
	c := &crew{
		threads: threads, asleep: make([]atomic.Bool, threads), wake: make([]chan struct{}, threads),
		done: make(chan struct{}, 1),
	}
	for worker := 1; worker < threads; worker++ {
		c.wake[worker] = make(chan struct{}, 1)
		c.ended.Go(func() { c.work(worker) })
	}
	return c
}

// dismiss ends the goroutines and waits for them.
func (c *crew) dismiss() {
	for _, wake := range c.wake[1:] {
		close(wake)
	}
	c.ended.Wait()
}

// each calls do(worker, i) once for every i in [0, n) and returns when all calls
// have. Calls of one worker, a number below threads, do not overlap. What do
// writes must not depend on the order of calls. One goroutine at a time may call
// it.
func (c *crew) each(n int, do func(worker, i int)) {
	if c.threads == 1 || n <= 1 {
		for i := range n {
			do(0, i)
		}
		return
	}
	t := &task{do: do, shares: make([]share, c.threads)}
	t.left.Store(int64(n))
	for worker := range t.shares {
		t.shares[worker].next.Store(int64(worker * n / c.threads))
		t.shares[worker].end.Store(int64((worker + 1) * n / c.threads))
	}
	c.task.Store(t)
	for worker := 1; worker < c.threads; worker++ {
		if c.asleep[worker].CompareAndSwap(true, false) {
			c.wake[worker] <- struct{}{}
		}
	}
	c.help(t, 0)
	for range patience {
		if t.left.Load() == 0 {
			return
		}
	}
	t.awaited.Store(true)
	if t.left.Load() > 0 || !t.awaited.CompareAndSwap(true, false) {
		<-c.done
	}
}

// help takes parts of a task until none is left.
func (c *crew) help(t *task, worker int) {
	for k := range t.shares {
		s := &t.shares[(worker+k)%len(t.shares)]
		end := s.end.Load()
		for i := s.next.Add(1) - 1; i < end; i = s.next.Add(1) - 1 {
			t.do(worker, int(i))
			if t.left.Add(-1) == 0 && t.awaited.CompareAndSwap(true, false) {
				c.done <- struct{}{}
			}
		}
	}
}

// work is the life of a worker.
func (c *crew) work(worker int) {
	var last *task
	for idle := 0; ; idle++ {
		if t := c.task.Load(); t != last {
			c.help(t, worker)
			last, idle = t, 0
			continue
		}
		if idle < patience {
			continue
		}
		c.asleep[worker].Store(true)
		if c.task.Load() != last && c.asleep[worker].CompareAndSwap(true, false) {
			continue
		}
		if _, more := <-c.wake[worker]; !more {
			return
		}
		idle = 0
	}
}
