package predictor

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// largestAnswer bounds what a client reads as one answer: rowsPerCall rows are
// 300 KB.
const largestAnswer = 4 << 20

// frameLink is a client's connection that speaks frames, made again and again.
type frameLink struct {
	path string

	mu      sync.Mutex
	conn    *frameConn    // nil while there is none
	foreign bool          // the server speaks gRPC alone, as far as is known
	changed chan struct{} // closed at the next change
}

const (
	relinkMin = 50 * time.Millisecond
	relinkMax = 500 * time.Millisecond
	// reaskEvery is how often a server that spoke gRPC alone is asked again.
	reaskEvery = 10 * time.Second
)

// run keeps the connection until ctx ends.
func (l *frameLink) run(ctx context.Context) {
	wait := relinkMin
	for ctx.Err() == nil {
		conn, err := dialFrames(ctx, l.path)
		if err == nil {
			began := time.Now()
			c := &frameConn{conn: conn, calls: map[uint32]*frameCall{}, writing: make(chan struct{}, 1)}
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			l.set(c, false)
			c.read()
			stop()
			l.set(nil, false)
			if time.Since(began) > relinkMax {
				wait = relinkMin
				continue
			} // else it greets and hangs up
		}
		pause := wait
		if wait = min(2*wait, relinkMax); errors.Is(err, errNoFrames) {
			pause = reaskEvery
		}
		l.set(nil, errors.Is(err, errNoFrames))
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (l *frameLink) set(c *frameConn, foreign bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn, l.foreign = c, foreign
	close(l.changed)
	l.changed = make(chan struct{})
}

// ready reports whether there is a connection that is not known to be lost; if
// not, changed is what to wait for.
func (l *frameLink) ready() (ready, foreign bool, changed <-chan struct{}) {
	c, foreign, changed := l.now()
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		ready = c.calls != nil
	}
	return ready, foreign, changed
}

// now returns the connection, or nil, and whether gRPC is to be used instead.
func (l *frameLink) now() (c *frameConn, foreign bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn, l.foreign, l.changed
}

// frameConn is one connection of a client.
type frameConn struct {
	conn    net.Conn
	writing chan struct{} // holds one while a frame is written with out
	out     []byte

	mu     sync.Mutex
	calls  map[uint32]*frameCall // nil once the connection is lost
	number uint32                // of the last call
}

// frameCall is one call that waits for its answer.
type frameCall struct {
	reply *reply
	done  chan error // holds the end of the call
}

var frameCalls = sync.Pool{New: func() any { return &frameCall{done: make(chan error, 1)} }}

// call sends q and reads its answer into r. It fails as a gRPC call does.
func (c *frameConn) call(ctx context.Context, q *question, r *reply) error {
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	call := frameCalls.Get().(*frameCall)
	call.reply = r
	number, ok := c.begin(call)
	if !ok {
		return errLost
	}
	err := c.send(ctx, q, number)
	if err == nil {
		select {
		case err = <-call.done:
			frameCalls.Put(call)
			return err
		case <-ctx.Done():
			err = status.FromContextError(ctx.Err()).Err()
		}
	}
	if !c.forget(number) {
		<-call.done // its answer is being read into r, or the connection is lost
	}
	frameCalls.Put(call)
	return err
}

var errLost = status.Error(codes.Unavailable, "the connection is lost")

func (c *frameConn) begin(call *frameCall) (number uint32, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		return 0, false
	}
	c.number++
	c.calls[c.number] = call
	return c.number, true
}

// forget gives up a call. It reports whether nobody else ends it.
func (c *frameConn) forget(number uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.calls[number]
	delete(c.calls, number)
	return ok
}

// send writes a call. A frame that was begun and can't be ended in time ends
// the connection.
func (c *frameConn) send(ctx context.Context, q *question, number uint32) error {
	select {
	case c.writing <- struct{}{}:
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	defer func() { <-c.writing }()
	deadline, limited := ctx.Deadline()
	h := header{size: uint32(q.size()), call: number}
	if limited {
		h.value = uint64(deadline.UnixNano())
	}
	c.out = q.appendTo(h.appendTo(c.out[:0]))
	_ = c.conn.SetWriteDeadline(deadline) // zero for none
	n, err := c.conn.Write(c.out)
	if err == nil {
		return nil
	}
	var timeout net.Error
	if late := errors.As(err, &timeout) && timeout.Timeout(); late && n == 0 {
		return status.FromContextError(context.DeadlineExceeded).Err()
	}
	c.lose()
	return errLost
}

// read hands out answers until the connection is lost, and ends all calls then.
func (c *frameConn) read() {
	in := frameReader{from: c.conn, most: largestAnswer}
	for {
		h, body, err := in.read()
		if err != nil {
			c.lose()
			return
		}
		c.mu.Lock()
		call := c.calls[h.call]
		delete(c.calls, h.call)
		c.mu.Unlock()
		if call == nil {
			continue // nobody waits any more
		}
		switch {
		case h.value > uint64(codes.Unauthenticated): // none that gRPC has
			err = status.Error(codes.Unknown, string(body))
		case h.value != 0:
			err = status.Error(codes.Code(h.value), string(body))
		default:
			err = call.reply.readFrom(body)
		}
		call.done <- err
	}
}

// lose ends the connection, if nobody has, and all calls.
func (c *frameConn) lose() {
	c.conn.Close()
	c.mu.Lock()
	calls := c.calls
	c.calls = nil
	c.mu.Unlock()
	for _, call := range calls {
		call.done <- errLost
	}
}

// forecast asks over frames where the server speaks them.
func (l *frameLink) forecast(ctx context.Context, m *messages) (handled bool, err error) {
	conn, foreign, _ := l.now()
	switch {
	case conn != nil:
		return true, conn.call(ctx, &m.question, &m.reply)
	case foreign:
		return false, nil
	default:
		return true, status.Error(codes.Unavailable, "nobody answers at "+l.path)
	}
}
