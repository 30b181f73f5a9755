package router

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// idleGrace is how long a connection that nobody uses stays open once the
	// router is on its way out. A client that was just answered uses it again
	// within this time, or hardly in the very moment in which it is closed.
	idleGrace = time.Second

	lookEvery = 20 * time.Millisecond // for connections that fell out of use
)

// connections are those of an HTTP server, to be ended without breaking a request.
// http.Server.Shutdown alone closes a connection also in the moment in which its
// client sends the next request, which the client must then take for failed: it
// can't know whether it was served.
//
// From farewell on every answer says "Connection: close", so that clients come back
// on another connection; end closes those that nobody uses.
type connections struct {
	mu   sync.Mutex
	open map[net.Conn]*use
	said time.Time // when the farewell was; zero: it was not
}

// use is what a connection does.
type use struct {
	idle   time.Time // since when; zero: it has a request
	closed bool      // it was told to close, if no request comes first
}

// watch follows the connections of a server that does not serve yet.
func (c *connections) watch(s *http.Server) {
	c.open = map[net.Conn]*use{}
	s.ConnState = c.changed
	next := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.leaving() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.open[conn] = &use{idle: time.Now()}
	case http.StateIdle:
		c.open[conn].idle = time.Now()
	case http.StateActive:
		u := c.open[conn]
		u.idle = time.Time{}
		if u.closed { // the request came first
			u.closed = false
			_ = conn.SetReadDeadline(time.Time{})
		}
	default:
		delete(c.open, conn)
	}
}

func (c *connections) leaving() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.said.IsZero()
}

// farewell makes clients come back on other connections.
func (c *connections) farewell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said.IsZero() {
		c.said = time.Now()
	}
}

// end closes connections as they fall out of use, after the farewell, until none is
// left or ctx ends.
func (c *connections) end(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for c.closeUnused() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// cut ends the requests whose bodies are still on their way: their handlers, which
// wait for more, are told that none comes. The others are not read from any more.
func (c *connections) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		_ = conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// closeUnused ends what was not used for the grace, and returns how many are open.
func (c *connections) closeUnused() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for conn, u := range c.open {
		if u.idle.IsZero() || now.Sub(u.idle) < idleGrace || now.Sub(c.said) < idleGrace {
			continue
		}
		// The server reads from it, and closes it where nothing comes in time. What
		// it has read by now it serves.
		u.closed = true
		_ = conn.SetReadDeadline(time.Unix(1, 0))
	}
	return len(c.open)
}
