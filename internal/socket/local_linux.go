package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// local is a connection over a Unix socket that is woken only when there is
// something to read.
//
// Go waits for all of a socket's events at once. Whenever its peer reads, a Unix
// socket says that there is room to write again: so a process that answers calls
// is woken twice for each, the second time for nothing, which costs it 5 us.
// Here the socket stands in an epoll set of its own, which tells of what can be
// read alone, and Go waits for that set.
type local struct {
	here, there net.Addr
	set         *os.File        // the epoll set
	wait        syscall.RawConn // for it

	life   sync.RWMutex // held to use the descriptor, and alone to close it
	fd     uintptr
	closed bool

	in      transfer
	drained bool // nothing is left to read until the set says so; of whoever reads
	over    bool // the set said that the peer has ended: it says no more

	writing sync.Mutex // one write at a time

	full     sync.Mutex // guards what follows
	room     *os.File   // the epoll set of a write that waits for room; nil while none does
	deadline time.Time  // of writes
}

// newLocal takes over a connection.
func newLocal(conn *net.UnixConn) (net.Conn, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd uintptr
	var errno syscall.Errno
	if err := raw.Control(func(was uintptr) {
		fd, _, errno = syscall.Syscall(syscall.SYS_FCNTL, was, syscall.F_DUPFD_CLOEXEC, 0)
	}); err != nil {
		return nil, err
	}
	if errno != 0 {
		return nil, os.NewSyscallError("fcntl", errno)
	}
	set, err := watch(fd, syscall.EPOLLIN|syscall.EPOLLRDHUP)
	if err != nil {
		_ = syscall.Close(int(fd))
		return nil, err
	}
	c := &local{here: conn.LocalAddr(), there: conn.RemoteAddr(), set: set, fd: fd, drained: true}
	if c.wait, err = set.SyscallConn(); err != nil {
		_ = c.Close()
		return nil, err
	}
	c.in.try = c.read
	_ = conn.Close() // which takes it from Go's own set
	return c, nil
}

// watch is an epoll set that tells of changes of a descriptor, and that Go can
// wait for.
func watch(fd uintptr, events uint32) (*os.File, error) {
	set, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	const edges = 1 << 31 // EPOLLET, which package syscall has with a minus
	err = syscall.EpollCtl(set, syscall.EPOLL_CTL_ADD, int(fd), &syscall.EpollEvent{Events: events | edges})
	if err == nil {
		err = syscall.SetNonblock(set, true) // it never blocks, but so Go is told to wait for it
	}
	if err != nil {
		_ = syscall.Close(set)
		return nil, os.NewSyscallError("epoll_ctl", err)
	}
	return os.NewFile(uintptr(set), "epoll"), nil
}

// changed takes what a set has to tell; 0 for nothing. It does not wait.
func changed(set uintptr) (events uint32) {
	var event syscall.EpollEvent
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, set, uintptr(unsafe.Pointer(&event)), 1, 0, 0, 0)
		if errno == 0 && n > 0 {
			return event.Events
		}
		if errno != syscall.EINTR {
			return 0
		}
	}
}

// Read implements net.Conn.
func (c *local) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := c.in.run(p, c.wait.Read)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, c.ended(err)
}

// read reads once, if there is something to read.
func (c *local) read(set uintptr) bool {
	for {
		if c.drained {
			events := changed(set)
			if events == 0 {
				return false
			}
			c.over = c.over || events&^syscall.EPOLLIN != 0
			c.drained = false // also where the read fails: the set says no more of that
		}
		n, errno := c.transfer(syscall.SYS_READ, c.in.bytes)
		switch errno {
		case 0:
			c.in.done = n
			c.drained = n < len(c.in.bytes) && !c.over // as epoll(7) has it
			return true
		case syscall.EAGAIN:
			c.drained = true
		default:
			c.in.err = os.NewSyscallError("read", errno)
			return true
		}
	}
}

// transfer reads or writes once. EBADF says that the connection is closed.
func (c *local) transfer(call uintptr, p []byte) (int, syscall.Errno) {
	c.life.RLock()
	defer c.life.RUnlock()
	if c.closed {
		return 0, syscall.EBADF
	}
	return transferNow(call, c.fd, p)
}

// Write implements net.Conn.
func (c *local) Write(p []byte) (done int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.late() {
		return 0, os.ErrDeadlineExceeded
	}
	for done < len(p) {
		n, errno := c.transfer(syscall.SYS_WRITE, p[done:])
		switch errno {
		case 0:
			done += n
		case syscall.EAGAIN:
			if err := c.waitForRoom(); err != nil {
				return done, c.ended(err)
			}
		default:
			return done, c.ended(os.NewSyscallError("write", errno))
		}
	}
	return done, nil
}

func (c *local) late() bool {
	c.full.Lock()
	defer c.full.Unlock()
	return !c.deadline.IsZero() && !time.Now().Before(c.deadline)
}

// waitForRoom waits until there is room to write. That is rare, and so nothing
// is kept ready for it.
func (c *local) waitForRoom() error {
	room, err := c.openRoom()
	if err != nil {
		return err
	}
	defer c.closeRoom()
	raw, err := room.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(set uintptr) bool { return changed(set) != 0 })
}

func (c *local) openRoom() (*os.File, error) {
	c.full.Lock()
	defer c.full.Unlock()
	c.life.RLock()
	defer c.life.RUnlock()
	if c.closed {
		return nil, net.ErrClosed
	}
	room, err := watch(c.fd, syscall.EPOLLOUT)
	if err != nil {
		return nil, err
	}
	if err := room.SetReadDeadline(c.deadline); err != nil {
		room.Close()
		return nil, err
	}
	c.room = room
	return room, nil
}

func (c *local) closeRoom() {
	c.full.Lock()
	defer c.full.Unlock()
	c.room.Close()
	c.room = nil
}

// Close implements net.Conn.
func (c *local) Close() error {
	if err := c.close(); err != nil {
		return err
	}
	err := c.set.Close()
	c.full.Lock()
	defer c.full.Unlock()
	if c.room != nil {
		c.room.Close()
	}
	return err
}

func (c *local) close() error {
	c.life.Lock()
	defer c.life.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	return os.NewSyscallError("close", syscall.Close(int(c.fd)))
}

// ended is net.ErrClosed for any error of a connection that is closed.
func (c *local) ended(err error) error {
	if err == nil {
		return nil
	}
	c.life.RLock()
	defer c.life.RUnlock()
	if c.closed {
		return net.ErrClosed
	}
	return err
}

// LocalAddr implements net.Conn.
func (c *local) LocalAddr() net.Addr { return c.here }

// RemoteAddr implements net.Conn.
func (c *local) RemoteAddr() net.Addr { return c.there }

// SetDeadline implements net.Conn.
func (c *local) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *local) SetReadDeadline(t time.Time) error { return c.ended(c.set.SetReadDeadline(t)) }

// SetWriteDeadline implements net.Conn.
func (c *local) SetWriteDeadline(t time.Time) error {
	c.full.Lock()
	defer c.full.Unlock()
	c.deadline = t
	if c.room != nil {
		return c.room.SetReadDeadline(t)
	}
	return nil
}
