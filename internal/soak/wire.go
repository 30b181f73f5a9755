package main

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
)

// wire is a socket through which a database is reached, until it is cut.
type wire struct {
	listener net.Listener
	to       string // the database's own socket
	url      string // of the database, through here
	running  sync.WaitGroup

	mu    sync.Mutex
	open  map[net.Conn]struct{}
	isCut bool
}

// newWire opens a socket in dir in front of the database at a URL that names a
// socket's folder.
func newWire(dir, database string) (*wire, error) {
	u, err := url.Parse(database)
	if err != nil {
		return nil, err
	}
	query := u.Query()
	file := ".s.PGSQL." + query.Get("port")
	w := &wire{to: filepath.Join(query.Get("host"), file), open: map[net.Conn]struct{}{}}
	if _, err := os.Stat(w.to); err != nil {
		return nil, fmt.Errorf("the database has no socket: %w", err)
	}
	if w.listener, err = net.Listen("unix", filepath.Join(dir, file)); err != nil {
		return nil, err
	}
	query.Set("host", dir)
	u.RawQuery = query.Encode()
	w.url = u.String()
	w.running.Go(w.serve)
	return w, nil
}

func (w *wire) serve() {
	for {
		near, err := w.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("unix", w.to)
		if err != nil {
			near.Close()
			continue
		}
		if !w.keep(near, far) {
			continue
		}
		for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
			w.running.Go(func() {
				_, _ = io.Copy(way[0], way[1]) // until one end closes
				w.drop(near, far)
			})
		}
	}
}

// keep takes a connection in, or closes it where the wire is cut.
func (w *wire) keep(ends ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range ends {
		if w.isCut {
			c.Close()
		} else {
			w.open[c] = struct{}{}
		}
	}
	return !w.isCut
}

func (w *wire) drop(ends ...net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range ends {
		c.Close()
		delete(w.open, c)
	}
}

// cut breaks all connections and lets no new one live, until mend.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = true
	for c := range w.open {
		c.Close()
	}
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = false
}

func (w *wire) close() {
	w.listener.Close()
	w.cut()
	w.running.Wait()
}
