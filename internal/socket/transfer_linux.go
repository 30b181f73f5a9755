//go:build !race

package socket

import (
	"syscall"
	"unsafe"
)

// transferNow makes one system call, SYS_READ or SYS_WRITE, on a socket that does
// not block.
func transferNow(call, fd uintptr, p []byte) (n int, errno syscall.Errno) {
	for {
		r, _, errno := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		if errno == 0 {
			return int(r), 0
		}
		if errno != syscall.EINTR {
			return 0, errno
		}
	}
}
