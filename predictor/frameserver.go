package predictor

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/status"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/socket"
)

// doorman takes connections from a listener, keeps those that speak frames and
// hands on the others, which speak gRPC.
type doorman struct {
	net.Listener
	server *Server
	grpc   chan net.Conn // a connection waits until gRPC accepts it
	ctx    context.Context
	frames sync.WaitGroup
}

// acceptAgain is how long a listener that failed is left alone.
const acceptAgain = 100 * time.Millisecond

// run accepts until the listener is closed, and then waits for the connections
// that speak frames.
func (d *doorman) run() {
	defer d.frames.Wait()
	defer close(d.grpc)
	var greeting sync.WaitGroup
	defer greeting.Wait()
	for {
		conn, err := d.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files
			d.server.log.Warn("a connection was not accepted", "err", err)
			select {
			case <-d.ctx.Done():
			case <-time.After(acceptAgain):
			}
			continue
		}
		greeting.Go(func() { d.greet(socket.Quiet(conn)) })
	}
}

// greet reads how a connection begins.
func (d *doorman) greet(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(helloWithin))
	begin := make([]byte, len(frameHello))
	if _, err := io.ReadFull(conn, begin); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			d.server.metrics.dropped.WithLabelValues(droppedSilent).Inc()
		}
		conn.Close()
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	if string(begin) == frameHello {
		d.frames.Go(func() { d.server.serveFrames(d.ctx, conn) })
		return
	}
	select {
	case d.grpc <- begun{conn, &begin}:
	case <-d.ctx.Done():
		conn.Close()
	}
}

// Accept implements net.Listener for gRPC.
func (d *doorman) Accept() (net.Conn, error) {
	if conn, ok := <-d.grpc; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

// begun is a connection of which some bytes were read already.
type begun struct {
	net.Conn
	begin *[]byte
}

func (b begun) Read(p []byte) (int, error) {
	if len(*b.begin) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, *b.begin)
	*b.begin = (*b.begin)[n:]
	return n, nil
}

// frames is one connection that speaks frames.
type frames struct {
	server  *Server
	ctx     context.Context
	conn    net.Conn
	in      frameReader   // of the goroutine that leads
	working int           // goroutines; likewise
	turn    chan struct{} // taken by one that waits for its turn to lead
	over    chan struct{} // closed when there is nothing more to read
	calls   sync.WaitGroup

	writing sync.Mutex
	out     []byte
	renew   time.Time // the deadline of writing
}

const (
	// mostCalls is how many calls of one connection are open at once, each with
	// a goroutine. No more are read until one of them is answered.
	mostCalls = maxStreams
	// answerWithin is how long at least, and twice that at most, a peer whose
	// buffers are full may leave an answer unread. Then it is no peer any more.
	answerWithin = time.Second
)

// serveFrames answers until the connection or ctx ends, and then the calls that
// were read by then.
func (s *Server) serveFrames(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })
	defer stop()
	if _, err := io.WriteString(conn, frameHello); err != nil {
		return
	}
	f := &frames{server: s, ctx: context.WithoutCancel(ctx), conn: conn, turn: make(chan struct{}), over: make(chan struct{})}
	f.in = frameReader{from: conn, most: s.largestMessage()}
	f.hire()
	f.calls.Wait()
}

// hire lets one more goroutine work, which leads.
func (f *frames) hire() {
	f.working++
	f.calls.Go(f.work)
}

// work leads whenever it is this goroutine's turn, until the connection ends.
func (f *frames) work() {
	for {
		handed, more := f.lead()
		switch {
		case !more:
			return
		case handed:
			select {
			case <-f.turn:
			case <-f.over:
				return
			}
		}
	}
}

// lead reads one call, lets another goroutine read the next, and answers it.
// So no call waits for the one before, and one that comes alone is not handed
// over at all. It reports whether another goroutine leads now, and whether there
// was a call.
func (f *frames) lead() (handed, more bool) {
	x := f.server.exchange()
	h, body, err := f.in.read()
	if err != nil {
		if errors.Is(err, errOversized) {
			f.server.metrics.dropped.WithLabelValues(droppedOversized).Inc()
			f.server.log.Warn("a connection is ended", "err", err)
		}
		close(f.over) // nobody else leads
		return false, false
	}
	malformed := x.readFrom(body)
	handed = true
	select {
	case f.turn <- struct{}{}:
	default: // all that there are have a call to answer
		if handed = f.working < mostCalls; handed {
			f.hire()
		}
	}

	x.patience = patience{Context: f.ctx}
	if h.value != 0 {
		x.patience.until = time.Unix(0, int64(h.value))
	}
	if malformed != nil {
		f.server.metrics.requests.WithLabelValues(requestStatus(malformed)).Inc()
		err = wireError(malformed)
	} else {
		err = f.server.handle(&x.patience, x)
	}
	x.patience.end()
	f.reply(x, h.call, err)
	x.written()
	return handed, true
}

// reply writes an answer. One that can't be written has lost its reader, and
// may stand in the stream by half: it ends the connection.
func (f *frames) reply(x *exchange, call uint32, err error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	if err != nil {
		s := status.Convert(err)
		f.out = header{uint32(len(s.Message())), call, uint64(s.Code())}.appendTo(f.out[:0])
		f.out = append(f.out, s.Message()...)
	} else {
		f.out = header{uint32(x.size()), call, 0}.appendTo(f.out[:0])
		f.out = x.appendTo(f.out)
	}
	if now := time.Now(); now.After(f.renew) { // not for every answer: it costs half a microsecond
		f.renew = now.Add(answerWithin)
		_ = f.conn.SetWriteDeadline(f.renew.Add(answerWithin))
	}
	if _, err := f.conn.Write(f.out); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			f.server.metrics.dropped.WithLabelValues(droppedUnread).Inc()
		}
		f.conn.Close()
	}
}

// largestMessage is the most bytes a request may have.
func (s *Server) largestMessage() int { return s.config.MaxRows*feature.VectorSize + maxOverhead }

// patience is a context that ends at a time, but sets no timer unless someone
// waits for that.
type patience struct {
	context.Context
	until  time.Time // zero for never
	waited context.Context
	cancel context.CancelFunc
}

// Deadline implements context.Context.
func (p *patience) Deadline() (time.Time, bool) { return p.until, !p.until.IsZero() }

// Err implements context.Context.
func (p *patience) Err() error {
	if !p.until.IsZero() && !time.Now().Before(p.until) {
		return context.DeadlineExceeded
	}
	if p.waited != nil && p.waited.Err() != nil {
		return p.waited.Err() // also where the clock was put back since
	}
	return p.Context.Err()
}

// Done implements context.Context for one goroutine.
func (p *patience) Done() <-chan struct{} {
	if p.until.IsZero() {
		return p.Context.Done()
	}
	if p.waited == nil {
		p.waited, p.cancel = context.WithDeadline(p.Context, p.until)
	}
	return p.waited.Done()
}

// end frees what Done made.
func (p *patience) end() {
	if p.cancel != nil {
		p.cancel()
	}
}
