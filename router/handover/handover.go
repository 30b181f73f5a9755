// Package handover lets a router take the place of another on the same machine
// while clients go on asking. The listening sockets themselves go from the old
// process to the new one, over a Unix socket, and with them the connections that
// wait in them to be accepted: at no moment is one refused.
//
// The old router Offers. The new one Takes: it gets the sockets at once, while the
// old one goes on accepting from them, and gets ready for as long as it needs. One
// that fails or is killed meanwhile changed nothing. When it serves it Succeeds:
// the old one stops accepting, says so, and ends in order. One that was told to end
// while the new one gets ready leaves everything to it.
//
// On the wire, the old one writes a line of JSON, whose bytes carry the sockets as
// ancillary data; the new one answers "ready", and the old one "gone". Whoever may
// write to the Unix socket may take the traffic: its mode is 0600.
package handover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

const (
	ready = "ready\n"
	gone  = "gone\n"

	mostSockets  = 16
	mostMessage  = 16 << 10
	answerWithin = 10 * time.Second       // for what the other side has at hand
	lastWord     = 10 * time.Millisecond  // for one that gave up to have been heard
	acceptAgain  = 100 * time.Millisecond // where no file descriptor is left

	mode = 0o600 // of the Unix socket
)

// message is what goes with the sockets.
type message struct {
	Process   int      `json:"process"`   // id of the old one
	Addresses []string `json:"addresses"` // of the listeners, in the order of the sockets; the first is the Unix socket
}

// Legacy is what a router took over from another. A nil one is that of a router
// that has none before it, and holds nothing.
type Legacy struct {
	conn      *net.UnixConn
	offer     *net.UnixListener
	listeners []net.Listener // nobody has asked for yet
	gone      chan struct{}
	answer    error // of the old one; read after gone
	process   int
}

// Take asks the router behind the Unix socket at path for its listeners. It
// returns nil where none is there, or path is empty.
func Take(ctx context.Context, path string) (*Legacy, error) {
	if path == "" {
		return nil, nil
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%s is a file, not a socket; name a path of its own", path)
	}
	var dialer net.Dialer
	dialed, err := dialer.DialContext(ctx, "unix", path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask the router at %s for its listeners: %w", path, err)
	}
	l := &Legacy{conn: dialed.(*net.UnixConn), gone: make(chan struct{})}
	err = l.receive(ctx)
	if err == nil {
		err = ctx.Err() // if there is one, the connection may have been interrupted
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("ask the router at %s for its listeners: %w", path, err)
	}
	go l.listen()
	return l, nil
}

// receive reads the message and makes listeners of its sockets.
func (l *Legacy) receive(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = l.conn.SetDeadline(time.Unix(1, 0)) })()
	_ = l.conn.SetReadDeadline(time.Now().Add(answerWithin))
	text, rights := make([]byte, mostMessage), make([]byte, syscall.CmsgSpace(4*mostSockets))
	n, m, _, _, err := l.conn.ReadMsgUnix(text, rights)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil:
		return fmt.Errorf("it does not answer within %v; it hangs, or another takes over from it right now", answerWithin)
	case err != nil:
		return err
	}
	_ = l.conn.SetReadDeadline(time.Time{})
	sockets, err := received(rights[:m])
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range sockets {
			_ = s.Close() // listeners have their own
		}
	}()
	var said message
	if err := json.Unmarshal(text[:n], &said); err != nil {
		return fmt.Errorf("what it says is not understood: %w", err)
	}
	if len(sockets) == 0 || len(said.Addresses) != len(sockets) {
		return fmt.Errorf("%d addresses came with %d sockets", len(said.Addresses), len(sockets))
	}
	l.process = said.Process
	for i, s := range sockets {
		listener, err := net.FileListener(s)
		if err != nil {
			return fmt.Errorf("%s: %w", said.Addresses[i], err)
		}
		if i > 0 {
			l.listeners = append(l.listeners, listener)
			continue
		}
		offer, ok := listener.(*net.UnixListener)
		if !ok {
			_ = listener.Close()
			return fmt.Errorf("the first socket is of %s, not a Unix socket", said.Addresses[i])
		}
		l.offer = offer
	}
	return nil
}

// received opens the sockets of ancillary data.
func received(rights []byte) (sockets []*os.File, err error) {
	messages, err := syscall.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, fmt.Errorf("read the sockets: %w", err)
	}
	for i := range messages {
		fds, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			return sockets, fmt.Errorf("read the sockets: %w", err)
		}
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
			sockets = append(sockets, os.NewFile(uintptr(fd), "handed over"))
		}
	}
	return sockets, nil
}

// listen waits for the old router's answer, or its end.
func (l *Legacy) listen() {
	defer close(l.gone)
	answer := make([]byte, len(gone))
	if _, err := io.ReadFull(l.conn, answer); err != nil {
		l.answer = err
	} else if string(answer) != gone {
		l.answer = fmt.Errorf("the old router answers %q", answer)
	}
}

// Process is the id of the old router's process.
func (l *Legacy) Process() int { return l.process }

// Gone is closed when the old router accepts no more: it said so, or is dead.
func (l *Legacy) Gone() <-chan struct{} { return l.gone }

// Listener is the one that the old router had at a TCP address, host:port, for
// which it is asked once; nil when it had none there.
func (l *Legacy) Listener(address string) net.Listener {
	if l == nil {
		return nil
	}
	want, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil
	}
	for i, listener := range l.listeners {
		has, ok := listener.Addr().(*net.TCPAddr)
		if ok && has.Port == want.Port && (has.IP.Equal(want.IP) || anywhere(has.IP) && anywhere(want.IP)) {
			l.listeners = append(l.listeners[:i], l.listeners[i+1:]...)
			return listener
		}
	}
	return nil
}

func anywhere(ip net.IP) bool { return len(ip) == 0 || ip.IsUnspecified() }

// Succeed tells the old router to end, and returns when it accepts no more. One
// that has ended meanwhile is no error. What nobody has asked for is closed: nobody
// is to wait at an address that the new router has no more.
func (l *Legacy) Succeed(ctx context.Context) error {
	_, _ = io.WriteString(l.conn, ready) // to one that has ended, as gone says then
	wait, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	select {
	case <-l.gone:
	case <-wait.Done():
		return fmt.Errorf("the router with process id %d does not answer: %w", l.process, wait.Err())
	}
	l.closeListeners()
	if l.answer != nil && !errors.Is(l.answer, io.EOF) && !errors.Is(l.answer, syscall.ECONNRESET) {
		return l.answer
	}
	return nil
}

// Close closes what nobody asked for. Before Succeed it gives up: the old router
// goes on as if nothing had been.
func (l *Legacy) Close() {
	if l == nil {
		return
	}
	_ = l.conn.Close()
	l.closeListeners()
	if l.offer != nil {
		_ = l.offer.Close()
	}
}

// closeListeners closes those that nobody has asked for.
func (l *Legacy) closeListeners() {
	for _, listener := range l.listeners {
		_ = listener.Close()
	}
	l.listeners = nil
}

// Offer is where a router hands its listeners over.
type Offer struct{ listener *net.UnixListener }

// NewOffer listens at path, or where the legacy's offer was, which it takes over.
func NewOffer(path string, l *Legacy) (*Offer, error) {
	if l != nil && l.offer != nil {
		o := &Offer{l.offer}
		l.offer = nil
		return o, nil
	}
	// Take found nobody there.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove what a dead router left: %w", err)
	}
	// Linux takes the mode of the file from the socket, so that nobody else can
	// connect in the moment before it is changed; other systems refuse that.
	own := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), mode) })
	}}
	listener, err := own.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("can't listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, mode); err != nil {
		_ = listener.Close()
		return nil, err
	}
	return &Offer{listener.(*net.UnixListener)}, nil
}

// Close stops offering, and removes the Unix socket.
func (o *Offer) Close() {
	o.listener.SetUnlinkOnClose(true)
	_ = o.listener.Close()
}

// leave stops offering; the socket at its path, which is the same socket, is the
// successor's now.
func (o *Offer) leave() {
	o.listener.SetUnlinkOnClose(false)
	_ = o.listener.Close()
}

// Run hands listeners to whoever asks, one at a time, until one has taken over or
// ctx ends. It reports whether the listeners are another router's then: one that
// still gets ready when ctx ends serves as soon as it hears of that. Run calls asked
// before it hands them over. The offer is closed then.
func (o *Offer) Run(ctx context.Context, listeners []net.Listener, asked func()) (succeeded bool, err error) {
	defer context.AfterFunc(ctx, func() { _ = o.listener.SetDeadline(time.Unix(1, 0)) })()
	for {
		conn, err := o.listener.AcceptUnix()
		switch {
		case err == nil:
		case ctx.Err() != nil:
			o.Close()
			return false, nil
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ECONNABORTED):
			again := time.NewTimer(acceptAgain)
			select {
			case <-again.C:
			case <-ctx.Done():
			}
			again.Stop()
			continue
		default:
			o.Close()
			return false, err
		}
		succeeded := o.hand(ctx, conn, listeners, asked)
		if succeeded {
			o.leave()
			_, _ = io.WriteString(conn, gone)
		}
		_ = conn.Close()
		if succeeded {
			return true, nil
		}
	}
}

// hand gives one successor the listeners, and reports whether it has become ready,
// or had them when ctx ended.
func (o *Offer) hand(ctx context.Context, conn *net.UnixConn, listeners []net.Listener, asked func()) bool {
	asked()
	if send(conn, append([]net.Listener{o.listener}, listeners...)) != nil {
		return false
	}
	_ = conn.SetDeadline(time.Time{})
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
	answer := make([]byte, len(ready))
	n, err := io.ReadFull(conn, answer)
	if errors.Is(err, os.ErrDeadlineExceeded) { // ctx has ended
		_ = conn.SetReadDeadline(time.Now().Add(lastWord))
		_, err = io.ReadFull(conn, answer[n:])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return true // it has not given up
		}
	}
	return err == nil && bytes.Equal(answer, []byte(ready))
}

// send writes the message and the sockets of listeners, which stay open here.
func send(conn *net.UnixConn, listeners []net.Listener) error {
	said := message{Process: os.Getpid()}
	var fds []int
	for _, l := range listeners {
		socket, ok := l.(syscall.Conn)
		if !ok {
			return fmt.Errorf("%s has no socket", l.Addr())
		}
		raw, err := socket.SyscallConn()
		if err != nil {
			return err
		}
		if err := raw.Control(func(fd uintptr) { fds = append(fds, int(fd)) }); err != nil {
			return err
		}
		said.Addresses = append(said.Addresses, l.Addr().String())
	}
	text, err := json.Marshal(said)
	if err != nil {
		return err
	}
	_ = conn.SetWriteDeadline(time.Now().Add(answerWithin))
	_, _, err = conn.WriteMsgUnix(append(text, '\n'), syscall.UnixRights(fds...), nil)
	return err
}
