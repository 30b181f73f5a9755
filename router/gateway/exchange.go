package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/openai"
	"github.com/spillway-llm/spillway/router/front"
	"github.com/spillway-llm/spillway/router/route"
)

// exchange is one request from its first byte to its end. Only the goroutine
// that serves the request touches it.
type exchange struct {
	g       *Gateway
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController

	ticket *route.Ticket // nil until decided
	api    openai.API
	held   *body  // as it was read; nil once let go, or where there is none
	body   []byte // as it goes to the endpoint, in held or not; dropped once an answer came
	taken  int    // bytes of the gateway's room
	stream bool   // the client asked for a streamed answer
	strip  bool   // the usage chunk was asked for here and must not reach the client

	heard      front.Answer
	dispatched time.Time
	status     int // of the answer the client sees; 0 before
	ended      bool
	deadlines  bool // a write deadline was set on the client's connection
}

// understood reports whether the answer can be metered.
func (x *exchange) understood() bool { return x.api != openai.Other }

// serve asks the endpoint, or the next best one, and passes its answer on.
func (x *exchange) serve() {
	for {
		a, err := x.ask()
		if why := x.movable(a, err); why != "" && x.ticket.Retry(why) {
			x.g.metrics.retries.WithLabelValues(string(why)).Inc()
			a.close()
			continue
		}
		if err != nil {
			a.close()
			x.fail(err)
			return
		}
		x.body = nil
		x.letGo()
		x.leaveRoom()
		x.pass(a)
		return
	}
}

// answer is an endpoint's answer of which the first bytes have arrived.
type answer struct {
	*http.Response
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer // cancels with errSilent
	buf    *[]byte
	n      int   // bytes of buf read already
	err    error // of that read
	at     time.Time
	giveUp func(*[]byte)
}

// close gives back what the answer holds, and ends it if it has not ended.
func (a *answer) close() {
	a.timer.Stop()
	a.cancel(nil)
	if a.Response != nil {
		a.Body.Close()
	}
	a.giveUp(a.buf)
}

// errSilent is the cause of a cancellation for want of bytes.
var errSilent = errors.New("the endpoint was silent for too long")

// errProtocol is an answer that no engine gives to what is sent here.
var errProtocol = errors.New("the endpoint switched protocols")

// ask sends the request to the ticket's endpoint and waits for the first bytes
// of the answer's body. The answer is to be closed also when there is an error.
//
// Headers alone are no answer yet: engines send them when a request is queued,
// long before its first token, and until the client has seen something the
// request can still move.
func (x *exchange) ask() (*answer, error) {
	ctx, cancel := context.WithCancelCause(x.r.Context())
	a := &answer{
		ctx:    ctx,
		cancel: cancel,
		timer:  time.AfterFunc(x.patience(), func() { cancel(errSilent) }),
		buf:    x.g.buffers.Get().(*[]byte),
		giveUp: func(b *[]byte) { x.g.buffers.Put(b) },
	}
	out, err := x.outgoing(ctx)
	if err != nil {
		return a, err
	}
	x.dispatched = time.Now()
	x.ticket.Sent(x.dispatched)
	response, err := x.g.transport.RoundTrip(out)
	if err != nil {
		return a, causeOf(ctx, err)
	}
	a.Response = response
	if response.StatusCode == http.StatusSwitchingProtocols {
		return a, errProtocol
	}
	for a.n == 0 && a.err == nil {
		a.n, a.err = response.Body.Read(*a.buf)
	}
	a.at = time.Now()
	a.timer.Stop()
	if a.n == 0 && a.err != io.EOF {
		return a, causeOf(ctx, a.err)
	}
	return a, nil
}

// patience is how long the first byte of an answer may take.
func (x *exchange) patience() time.Duration {
	if x.stream {
		return x.g.config.Timeouts.FirstByte
	}
	return x.g.config.Timeouts.Answer
}

// causeOf returns why ctx was cancelled, or err where it was not.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// outgoing is the request as the ticket's endpoint gets it.
func (x *exchange) outgoing(ctx context.Context) (*http.Request, error) {
	target, err := url.Parse(strings.TrimSuffix(x.ticket.URL(), "/") + x.r.URL.EscapedPath())
	if err != nil {
		return nil, err
	}
	target.RawQuery = x.r.URL.RawQuery
	out := (&http.Request{
		Method:        x.r.Method,
		URL:           target,
		Host:          target.Host,
		Header:        outbound(x.r.Header, x.understood()),
		ContentLength: int64(len(x.body)),
		Proto:         "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if len(x.body) > 0 {
		// With GetBody the transport itself replays a request of which
		// nothing was sent, because its idle connection had been closed. It does so
		// before RoundTrip returns, while the body is still here; afterwards it must
		// hold on to nothing of it.
		out.GetBody = func() (io.ReadCloser, error) { return newPayload(x.body, x.held), nil }
		out.Body = newPayload(x.body, x.held)
	}
	return out, nil
}

// movable says why the request may go to another endpoint, or "".
//
// What was sent may have been worked on. Generating twice harms nobody, but a
// path that is not understood may do anything, so only reads and requests that
// never left are repeated there.
func (x *exchange) movable(a *answer, err error) route.Cause {
	switch {
	case x.r.Context().Err() != nil || errors.Is(err, errSilent) || errors.Is(err, errProtocol):
		return ""
	case err != nil && unsent(err):
		return route.Unreachable
	case !x.understood() && x.r.Method != http.MethodGet && x.r.Method != http.MethodHead:
		return ""
	case err != nil:
		return route.Reset
	case a.StatusCode == http.StatusBadGateway:
		return route.BadGateway
	case a.StatusCode == http.StatusServiceUnavailable:
		return route.Overloaded
	}
	return ""
}

// unsent reports whether no byte of the request can have left.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// stopping reports whether the router, not the client, ends this request.
func (x *exchange) stopping() bool {
	return errors.Is(context.Cause(x.r.Context()), front.ErrStopping)
}

// fail ends a request of whose answer no byte has arrived.
func (x *exchange) fail(err error) {
	var f front.Fault
	how := feature.UpstreamError
	switch {
	case x.stopping():
		how = feature.Lost
		f = front.Stopping()
	case x.r.Context().Err() != nil:
		how = feature.ClientAbort
		f = front.Refuse(front.StatusClientClosed, "client_abort", "the client left")
	case errors.Is(err, errSilent):
		how = feature.UpstreamTimeout
		f = front.Refuse(http.StatusGatewayTimeout, "upstream_timeout", "the endpoint did not answer in time")
	case unsent(err):
		f = front.Refuse(http.StatusBadGateway, "upstream_connect", "the endpoint could not be reached")
	default:
		f = front.Refuse(http.StatusBadGateway, "upstream_reset", "the endpoint ended the connection without an answer")
	}
	x.status = f.Status
	x.end(how, time.Now(), err)
	x.name()
	writeFault(x.w, f)
}

// name puts into the answer's headers who served it and why.
func (x *exchange) name() {
	h := x.w.Header()
	h.Set(front.HeaderEndpoint, x.ticket.Endpoint())
	h.Set(front.HeaderDecision, x.ticket.Header())
	h.Set(front.HeaderPolicy, x.ticket.Policy())
}

// end settles the request, once. err is for the log: it never holds anything
// of a prompt.
func (x *exchange) end(how feature.Status, now time.Time, err error) {
	if x.ended {
		return
	}
	x.ended = true
	e := x.heard.End(how, x.status, x.dispatched, now, err)
	x.ticket.End(e)
	x.g.metrics.requests.WithLabelValues(string(how)).Inc()
	front.Tell(x.g.config.Tracer.Of(x.r.Context()), x.ticket, x.api, &e)
	if x.g.log.Enabled(x.r.Context(), slog.LevelDebug) {
		x.g.log.Debug("request ended", "decision", x.ticket.Header(), "endpoint", x.ticket.Endpoint(), "api", x.api.String(),
			"status", string(how), "http_status", x.status, "ttft", float64(e.TTFT), "e2e", float64(e.E2E), "error", err)
	}
}

// letGo gives back the body's buffer, as soon as those who send it do too.
func (x *exchange) letGo() {
	x.held.release()
	x.held = nil
}

// leaveRoom gives back the room of the body.
func (x *exchange) leaveRoom() {
	x.g.room.Give(x.taken)
	x.taken = 0
}

// close ends what serving left open, also when it panicked.
func (x *exchange) close() {
	x.letGo()
	x.leaveRoom()
	if x.ticket != nil {
		if x.status == 0 {
			x.status = http.StatusInternalServerError
		}
		x.end(feature.Lost, time.Now(), nil)
	}
	x.heard.Close()
	if x.deadlines {
		// net/http would let it run on into the connection's next request.
		_ = x.control.SetWriteDeadline(time.Time{})
	}
}
