package extproc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spillway-llm/spillway/internal/feature"
	"github.com/spillway-llm/spillway/internal/tracing"
	"github.com/spillway-llm/spillway/router/front"
	"github.com/spillway-llm/spillway/router/route"
)

// stream is one request from its headers to its end. Only the goroutine that
// serves it touches it, but for watched.
type stream struct {
	p       *Picker
	grpc    grpc.ServerStream
	ctx     context.Context // the stream's; with the request's span once it has begun
	span    *tracing.Span   // nil: none
	watched watched
	in      message
	out     piece

	// The request.
	asked  front.Request
	length int      // of its body, as its headers say; -1: not said
	taken  int      // bytes of the picker's room
	within []string // see route.Query
	begun  bool     // its headers came
	whole  bool     // its last part came, or will not be waited for

	// Where it went.
	ticket     *route.Ticket // nil until decided
	streaming  bool          // the client asked for a streamed response
	unseen     bool          // the response's body is not shown here
	dispatched time.Time     // zero where it is not known
	ended      bool          // settled

	// The response.
	answer   front.Answer
	answered bool // its headers came
	shown    bool // its last part came
	status   int  // that the client sees; 0 before
}

// process serves one stream.
func (p *Picker) process(ss grpc.ServerStream) (err error) {
	s := &stream{p: p, grpc: ss, ctx: ss.Context(), length: -1}
	s.watched.cancel = ss.Context().Value(cancelKey{}).(context.CancelCauseFunc)
	defer func() { // of one request, not of the router
		if r := recover(); r != nil {
			p.log.Error("serving a proxy's stream panicked", "panic", r, "stack", string(debug.Stack()))
			err = status.Error(codes.Internal, "the router failed; its log says how")
		}
	}()
	s.watched.heard(time.Now(), p.config.Timeouts.Body)
	open := p.watch.enter(&s.watched)
	p.metrics.streams.Inc()
	defer s.close()
	for {
		if err := ss.RecvMsg(&s.in); err != nil {
			return s.gone(err)
		}
		now := time.Now()
		if open > p.config.MaxStreams {
			return s.refuse(front.Refuse(http.StatusServiceUnavailable, reasonStreams,
				fmt.Sprintf("more than %d requests are on their way", p.config.MaxStreams)))
		}
		if err := s.take(now); err != nil {
			return s.fail(err)
		}
		s.watched.heard(now, s.patience())
	}
}

// patience is for how long the stream may be silent now.
func (s *stream) patience() time.Duration {
	t := &s.p.config.Timeouts
	switch {
	case s.answered:
		return t.Idle
	case s.ticket == nil:
		return t.Body
	case s.streaming:
		return t.FirstByte
	}
	return t.Answer
}

// disorder is a proxy's breach of the protocol.
type disorder string

func (d disorder) Error() string { return string(d) }

// take takes in one message and says what there is to say to it. Errors are
// front.Fault, for the client; disorder, for the proxy; what sending returned.
func (s *stream) take(now time.Time) error {
	if s.in.observability {
		return disorder("observability_mode is on: an endpoint picker must be listened to")
	}
	switch s.in.kind {
	case requestHeaders:
		if s.begun || s.answered {
			return disorder("request headers came after other parts")
		}
		s.begun = true
		return s.takeHeaders()
	case requestBody:
		if !s.begun && !s.answered {
			return disorder("a request body came before its headers")
		}
		return s.takeBody()
	case requestTrailers:
		if !s.begun && !s.answered {
			return disorder("request trailers came before the headers")
		}
		return s.takeTrailers()
	case responseHeaders:
		if s.answered {
			return disorder("response headers came twice")
		}
		s.answered, s.whole = true, true // of a request not yet decided, the proxy needs nothing more
		return s.hearHeaders(now)
	case responseBody:
		if !s.answered {
			return disorder("a response body came before its headers")
		}
		return s.hearBody(now)
	case responseTrailers:
		if !s.answered {
			return disorder("response trailers came before the headers")
		}
		return s.hearTrailers(now)
	}
	return nil // of flow control, or of a later protocol
}

// gone ends a stream from which no more will come. Where it did not end by
// itself, gRPC has told the proxy already that it was cancelled.
func (s *stream) gone(err error) error {
	cause := context.Cause(s.grpc.Context())
	switch {
	case errors.Is(cause, errSilent):
		s.silent()
	case errors.Is(cause, front.ErrStopping):
		s.cut(feature.Lost, http.StatusServiceUnavailable, cause)
	case s.ended || s.ticket == nil:
	case s.answered && s.unseen:
		how, err := s.answer.Judge()
		s.end(how, time.Now(), err)
	case s.answered && s.answer.Complete():
		s.finish(time.Now())
	default:
		s.cut(feature.ClientAbort, front.StatusClientClosed, err)
	}
	return nil
}

// silent ends a stream that was silent for too long.
func (s *stream) silent() {
	s.p.metrics.silent.Inc()
	if s.ticket == nil {
		s.p.metrics.refusals.WithLabelValues("body_timeout").Inc()
		return
	}
	s.cut(feature.UpstreamTimeout, http.StatusGatewayTimeout, errSilent)
}

// cut ends a request of which not all was seen; code is the HTTP status where
// no response had begun.
func (s *stream) cut(how feature.Status, code int, err error) {
	if s.status == 0 {
		s.status = code
	}
	s.end(how, time.Now(), err)
}

// fail ends a stream that can't go on.
func (s *stream) fail(err error) error {
	var broken disorder
	switch {
	case errors.As(err, &broken), errors.Is(err, errMalformed):
		s.p.metrics.broken.Inc()
		s.cut(feature.Lost, http.StatusInternalServerError, err)
		return status.Error(codes.InvalidArgument, err.Error())
	case s.ticket != nil: // sending failed
		return s.gone(err)
	}
	fault, internal := front.FaultOf(s.grpc.Context(), err)
	if internal != nil {
		s.p.log.Error("request failed in the router", "error", internal)
	}
	return s.refuse(fault)
}

// refuse makes the proxy answer for the router, and ends the stream.
func (s *stream) refuse(f front.Fault) error {
	s.p.metrics.refusals.WithLabelValues(f.Reason).Inc()
	s.span.Fail(f.Reason)
	if f.Status == front.StatusClientClosed {
		return nil // nobody is there
	}
	return s.grpc.SendMsg(refusal(f))
}

// end settles the request, once. err is for the log: it never holds anything
// of a prompt.
func (s *stream) end(how feature.Status, now time.Time, err error) {
	if s.ended || s.ticket == nil {
		return
	}
	s.ended = true
	e := s.answer.End(how, s.status, s.dispatched, now, err)
	s.ticket.End(e)
	s.p.metrics.requests.WithLabelValues(string(how)).Inc()
	front.Tell(s.span, s.ticket, s.answer.API, &e)
	if s.p.log.Enabled(s.grpc.Context(), slog.LevelDebug) {
		s.p.log.Debug("request ended", "decision", s.ticket.Header(), "endpoint", s.ticket.Endpoint(), "api", s.answer.API.String(),
			"status", string(how), "http_status", s.status, "ttft", float64(e.TTFT), "e2e", float64(e.E2E), "error", err)
	}
}

// close ends what serving left open, also when it panicked.
func (s *stream) close() {
	s.cut(feature.Lost, http.StatusInternalServerError, nil)
	s.answer.Close()
	s.leaveRoom()
	s.span.End()
	s.in.release()
	s.p.watch.leave(&s.watched)
	s.p.metrics.streams.Dec()
	s.watched.cancel(nil)
}
