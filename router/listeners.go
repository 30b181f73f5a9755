package router

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/spillway-llm/spillway/router/handover"
)

// listeners are those that a router has; but for the front door they may be nil.
type listeners struct{ front, picker, side, share net.Listener }

// listen opens the addresses of the configuration, those that the router before
// had by taking them over.
func (c *Config) listen(before *handover.Legacy) (l listeners, err error) {
	for _, door := range []struct {
		key, address string
		listener     *net.Listener
	}{
		{"listen", c.Listen, &l.front},
		{"admin", c.Admin, &l.side},
		{"extproc_listen", c.Picker, &l.picker},
		{"share_listen", c.Share.Listen, &l.share},
	} {
		if door.address == "" {
			continue
		}
		if *door.listener = before.Listener(door.address); *door.listener != nil {
			continue
		}
		if *door.listener, err = listen(door.key, door.address); err != nil {
			l.close()
			return l, err
		}
	}
	return l, nil
}

// listen opens the address that key configures.
func listen(key, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s: %s is in use by another process; stop it or choose another address", key, address)
	case err != nil:
		return nil, fmt.Errorf("%s: can't listen on %q (want host:port): %w", key, address, cmp.Or(errors.Unwrap(err), err))
	}
	return l, nil
}

// list is the listeners that are there.
func (l *listeners) list() (all []net.Listener) {
	for _, listener := range []net.Listener{l.front, l.picker, l.side, l.share} {
		if listener != nil {
			all = append(all, listener)
		}
	}
	return all
}

// close makes it accept no more at any address.
func (l *listeners) close() {
	for _, listener := range l.list() {
		_ = listener.Close()
	}
}

// closeDoors makes it accept no more requests.
func (l *listeners) closeDoors() {
	_ = l.front.Close()
	if l.picker != nil {
		_ = l.picker.Close()
	}
}

// outlasting is a listener that can be closed while its server goes on with the
// connections that it has: the server hears of it when it closes the listener
// itself.
func outlasting(l net.Listener) net.Listener {
	if l == nil {
		return nil
	}
	return &outlasted{Listener: l, told: make(chan struct{})}
}

type outlasted struct {
	net.Listener
	once sync.Once
	told chan struct{}
}

// Accept implements net.Listener.
func (o *outlasted) Accept() (net.Conn, error) {
	conn, err := o.Listener.Accept()
	if errors.Is(err, net.ErrClosed) {
		<-o.told
	}
	return conn, err
}

// Close implements net.Listener.
func (o *outlasted) Close() error {
	o.once.Do(func() { close(o.told) })
	return o.Listener.Close()
}
