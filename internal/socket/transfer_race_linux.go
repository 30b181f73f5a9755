//go:build race

package socket

import "syscall"

// transferNow is as it is without the race detector, but not quiet: the detector
// learns from package syscall that what was written comes before what is read.
func transferNow(call, fd uintptr, p []byte) (n int, errno syscall.Errno) {
	transfer := syscall.Read
	if call == syscall.SYS_WRITE {
		transfer = syscall.Write
	}
	for {
		n, err := transfer(int(fd), p)
		if err == nil {
			return n, 0
		}
		if errno, _ = err.(syscall.Errno); errno != syscall.EINTR {
			return 0, errno
		}
	}
}
