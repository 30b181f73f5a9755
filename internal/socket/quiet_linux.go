package socket

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

func quiet(conn net.Conn) net.Conn {
	if unix, ok := conn.(*net.UnixConn); ok && unix.LocalAddr().Network() == "unix" { // a stream
		if c, err := newLocal(unix); err == nil { // else, such as for too many open files, it is not altogether quiet
			return c
		}
	}
	under, ok := conn.(syscall.Conn)
	if !ok {
		return conn
	}
	raw, err := under.SyscallConn()
	if err != nil {
		return conn // it is closed, and says so when it is used
	}
	c := &quietConn{Conn: conn, raw: raw}
	c.in.try, c.out.try = c.in.read, c.out.write
	return c
}

// quietConn is a connection. What it does not do itself the one below does,
// deadlines and Close included, which also end Read and Write.
type quietConn struct {
	net.Conn
	raw     syscall.RawConn
	in, out transfer
}

// transfer is one direction of a connection.
type transfer struct {
	mu    sync.Mutex                 // one at a time
	bytes []byte                     // still to be filled or sent
	done  int                        // bytes so far
	err   error                      // of the system call
	try   func(fd uintptr) (ok bool) // read or write, kept because a method value allocates
}

// Read implements net.Conn.
func (c *quietConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := c.in.run(p, c.raw.Read)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// Write implements net.Conn.
func (c *quietConn) Write(p []byte) (int, error) { return c.out.run(p, c.raw.Write) }

// run moves p by way of until, which calls try, again whenever the socket is
// ready, until it is ok.
func (t *transfer) run(p []byte, until func(try func(fd uintptr) bool) error) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes, t.done, t.err = p, 0, nil
	err := until(t.try)
	t.bytes = nil
	if err == nil {
		err = t.err
	}
	return t.done, err
}

// read fills what one system call can fill.
func (t *transfer) read(fd uintptr) bool {
	n, errno := transferNow(syscall.SYS_READ, fd, t.bytes)
	switch errno {
	case 0:
		t.done = n
		return true
	case syscall.EAGAIN:
		return false
	default:
		t.err = os.NewSyscallError("read", errno)
		return true
	}
}

// write sends all of it, in as many system calls as it takes.
func (t *transfer) write(fd uintptr) bool {
	for len(t.bytes) > 0 {
		n, errno := transferNow(syscall.SYS_WRITE, fd, t.bytes)
		switch errno {
		case 0:
			t.done += n
			t.bytes = t.bytes[n:]
		case syscall.EAGAIN:
			return false
		default:
			t.err = os.NewSyscallError("write", errno)
			return true
		}
	}
	return true
}
