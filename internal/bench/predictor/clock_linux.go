package main

import (
	"syscall"
	"time"
)

// sleeper returns what puts the calling thread, which the caller is locked to,
// to sleep until a time, exact to some microseconds.
func sleeper() func(until time.Time) {
	// PR_SET_TIMERSLACK: by default the kernel may wake a thread 50 us late. Where
	// that is refused, it stays so.
	const setTimerSlack = 29
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, 1, 0)
	return func(until time.Time) {
		for d := time.Until(until); d > 0; d = time.Until(until) { // a signal may end a sleep
			t := syscall.NsecToTimespec(int64(d))
			_ = syscall.Nanosleep(&t, nil)
		}
	}
}

// threadTime is the CPU time that the calling thread has used.
func threadTime() time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var r syscall.Rusage
	if err := syscall.Getrusage(thread, &r); err != nil {
		panic(err) // it has no way to fail
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
